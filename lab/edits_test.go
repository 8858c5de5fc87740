package lab

import (
	"encoding/json"
	"reflect"
	"slices"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/utils/ptr"
)

// TestVariations lists the edits of a spec. Each one is a merge patch, and its inverse gives the spec back.
func TestVariations(t *testing.T) {
	property := func(of string) apiextensionsv1.JSONSchemaProps { return apiextensionsv1.JSONSchemaProps{Type: of} }
	number := func(least, most *float64) apiextensionsv1.JSONSchemaProps {
		return apiextensionsv1.JSONSchemaProps{Type: "integer", Minimum: least, Maximum: most}
	}
	list := property("array")
	list.MinItems = ptr.To[int64](1)
	short, fixed, mode := property("string"), property("string"), property("string")
	short.MaxLength, short.MinLength = ptr.To[int64](4), ptr.To[int64](1)
	fixed.Pattern = "^a$"
	mode.Enum = []apiextensionsv1.JSON{{Raw: []byte(`"fast"`)}, {Raw: []byte(`"slow"`)}}
	long, preset, open := property("string"), fixed, property("object")
	long.MinLength, preset.Default, open.XPreserveUnknownFields = ptr.To[int64](3), &apiextensionsv1.JSON{Raw: []byte(`"a"`)}, ptr.To(true)
	listOf := func(element apiextensionsv1.JSONSchemaProps) apiextensionsv1.JSONSchemaProps {
		return apiextensionsv1.JSONSchemaProps{Type: "array", Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &element}}
	}
	mapOf := func(element apiextensionsv1.JSONSchemaProps) apiextensionsv1.JSONSchemaProps {
		return apiextensionsv1.JSONSchemaProps{Type: "object", AdditionalProperties: &apiextensionsv1.JSONSchemaPropsOrBool{Schema: &element}}
	}
	object := func(properties map[string]apiextensionsv1.JSONSchemaProps, required ...string) *apiextensionsv1.JSONSchemaProps {
		return &apiextensionsv1.JSONSchemaProps{Type: "object", Properties: properties, Required: required}
	}
	one := func(p apiextensionsv1.JSONSchemaProps) *apiextensionsv1.JSONSchemaProps {
		return object(map[string]apiextensionsv1.JSONSchemaProps{"a": p}, "a")
	}
	for _, tc := range []struct {
		name   string
		schema *apiextensionsv1.JSONSchemaProps
		spec   string
		want   []string
	}{
		{"bool", one(property("boolean")), `{"a":true}`, []string{`{"a":false}`}},
		{"number", one(number(ptr.To(1.0), ptr.To(5.0))), `{"a":2}`, []string{`{"a":1}`, `{"a":3}`, `{"a":5}`}},
		{"far bounds", one(number(nil, ptr.To(1000.0))), `{"a":50}`, []string{`{"a":51}`}},
		{"text", one(property("string")), `{"a":"b"}`, []string{`{"a":""}`, `{"a":"bx"}`}},
		{"short text", one(short), `{"a":"b"}`, []string{`{"a":"bx"}`, `{"a":"bxxx"}`}},
		{"pattern", one(fixed), `{"a":"a"}`, nil},
		{"enum", one(mode), `{"a":"fast"}`, []string{`{"a":"slow"}`}},
		{"list", one(property("array")), `{"a":[1,2]}`, []string{`{"a":[1]}`, `{"a":[]}`}},
		{"list with a least length", one(list), `{"a":[1,2]}`, []string{`{"a":[1]}`}},
		{"optional", object(map[string]apiextensionsv1.JSONSchemaProps{"a": property("boolean")}), `{"a":true}`, []string{`{"a":false}`, `{"a":null}`}},
		{"absent", object(map[string]apiextensionsv1.JSONSchemaProps{"a": property("boolean"), "b": number(ptr.To(1.0), nil), "c": mode}), `{}`,
			[]string{`{"a":true}`, `{"a":false}`, `{"b":1}`, `{"c":"fast"}`, `{"c":"slow"}`}},
		{"absent text", object(map[string]apiextensionsv1.JSONSchemaProps{"a": property("string"), "b": fixed, "c": long}), `{}`, []string{`{"a":"x"}`, `{"c":"xxx"}`}},
		{"absent list", object(map[string]apiextensionsv1.JSONSchemaProps{"a": listOf(property("string")), "b": listOf(fixed), "c": property("array")}), `{}`,
			[]string{`{"a":["x"]}`}},
		{"absent map", object(map[string]apiextensionsv1.JSONSchemaProps{"a": mapOf(mode), "b": mapOf(fixed)}), `{}`, []string{`{"a":{"x":"fast"}}`}},
		{"absent object", object(map[string]apiextensionsv1.JSONSchemaProps{
			"a": *object(map[string]apiextensionsv1.JSONSchemaProps{"a": property("string")}),
			"b": *object(map[string]apiextensionsv1.JSONSchemaProps{"a": number(ptr.To(2.0), nil), "b": property("number"), "c": preset, "d": property("boolean")}, "a", "b", "c", "d"),
			"c": *object(map[string]apiextensionsv1.JSONSchemaProps{"a": fixed}, "a"),
			"d": open,
		}), `{}`, []string{`{"a":{}}`, `{"b":{"a":2,"b":1,"d":true}}`}},
		{"inner", object(map[string]apiextensionsv1.JSONSchemaProps{"a": *one(property("boolean"))}), `{"a":{"a":true},"z":1}`,
			[]string{`{"a":{"a":false}}`, `{"a":null}`}},
		{"unknown", object(nil), `{"z":{"y":1}}`, nil},
	} {
		var spec map[string]any
		if err := utiljson.Unmarshal([]byte(tc.spec), &spec); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, v := range variations(tc.schema, spec) {
			patch, err := json.Marshal(v)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, string(patch))
			back, err := json.Marshal(inverse(v.(map[string]any), spec))
			if err != nil {
				t.Fatal(err)
			}
			if undone := merged(t, merged(t, []byte(tc.spec), patch), back); !reflect.DeepEqual(decodeJSON(undone), spec) {
				t.Errorf("%s: %s and then %s gives %s, want %s", tc.name, patch, back, undone, tc.spec)
			}
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s: the edits of %s are %v, want %v", tc.name, tc.spec, got, tc.want)
		}
	}
}

// merged applies a merge patch.
func merged(t *testing.T, object, patch []byte) []byte {
	t.Helper()
	after, err := jsonpatch.MergePatch(object, patch)
	if err != nil {
		t.Fatal(err)
	}
	return after
}
