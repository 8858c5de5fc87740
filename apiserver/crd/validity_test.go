package crd

import (
	"encoding/json"
	"maps"
	"math/rand"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apiextensions-apiserver/pkg/registry/customresource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// FuzzValidity validates random objects by random schemas. Objects that validity accepts must be valid for the
// validator and the strategies of apiextensions-apiserver.
func FuzzValidity(f *testing.F) {
	for seed := range int64(600) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed int64) { compareValidity(t, seed) })
}

// TestValidityIsCommon proves that most valid objects are recognized.
func TestValidityIsCommon(t *testing.T) {
	recognized, valid := 0, 0
	for seed := range int64(2000) {
		r, v := compareValidity(t, seed)
		recognized, valid = recognized+r, valid+v
	}
	if recognized < valid/3 || valid < 1000 {
		t.Errorf("recognized %d of %d valid objects", recognized, valid)
	}
}

// compareValidity returns how many valid objects there were, and how many of them were recognized.
func compareValidity(t *testing.T, seed int64) (recognized, valid int) {
	t.Helper()
	r := &randomSchemas{rand.New(rand.NewSource(seed))}
	props := &apiextensions.JSONSchemaProps{Type: "object", Properties: map[string]apiextensions.JSONSchemaProps{
		"spec": r.schema(3), "status": r.schema(2)}}
	whole, err := newSchemaValidator(func() (*apiextensions.JSONSchemaProps, error) { return props, nil })
	if err != nil {
		t.Fatal(err)
	}
	statusProps := props.Properties["status"]
	status, err := newSchemaValidator(func() (*apiextensions.JSONSchemaProps, error) { return &statusProps, nil })
	if err != nil {
		t.Fatal(err)
	}
	s, err := structural.NewStructural(props)
	if err != nil {
		return 0, 0 // such a definition is refused
	}
	kind := schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "App"}
	var scale *apiextensions.CustomResourceSubresourceScale
	if r.Intn(3) == 0 {
		selector := ".status.b"
		scale = &apiextensions.CustomResourceSubresourceScale{SpecReplicasPath: ".spec.a", StatusReplicasPath: ".status.a",
			LabelSelectorPath: &selector}
	}
	valids := validityOf(validity{kind: kind, namespaced: true, scale: scale, schema: s, whole: whole.compiled, status: status.compiled})
	main := customresource.NewStrategy(typer{}, true, kind, upstreamOf(t, whole), upstreamOf(t, status), s,
		&apiextensions.CustomResourceSubresourceStatus{}, scale, nil)
	sub := customresource.NewStatusStrategy(main)
	count := func(what string, found bool, obj any, errs func() error) {
		if err := errs(); err == nil {
			valid++
		} else if found {
			schema, _ := json.Marshal(props)
			object, _ := json.Marshal(obj)
			t.Fatalf("seed %d: %s is said to be valid: %s\nschema %s\nobject %s", seed, what, err, schema, object)
		}
		if found {
			recognized++
		}
	}
	for range 8 {
		v := r.value(&props.Properties, "spec")
		count("a value", whole.compiled.properties["spec"].accepts(v), v, func() error {
			spec := props.Properties["spec"]
			upstream, _, err := validation.NewSchemaValidator(&spec)
			if err != nil {
				return err
			}
			return upstream.Validate(v).AsError()
		})
		var invalid invalidValues
		whole.compiled.properties["spec"].countInvalid(v, 0, &invalid)
		if spec := props.Properties["spec"]; invalid.count > 0 {
			if upstream, _, err := validation.NewSchemaValidator(&spec); err == nil && upstream.Validate(v).IsValid() {
				schema, _ := json.Marshal(spec)
				t.Fatalf("seed %d: %d values of a valid one are said to be invalid: %v\nschema %s", seed, invalid.count, v, schema)
			}
		}
		old, obj := r.object(props), r.object(props)
		if r.Intn(3) == 0 {
			obj = old.DeepCopy()
		}
		ctx := t.Context()
		count("a creation", valids.creates(ctx, obj), obj, func() error { return main.Validate(ctx, obj).ToAggregate() })
		count("an update", valids.updates(ctx, obj, old), []runtime.Object{old, obj},
			func() error { return main.ValidateUpdate(ctx, obj, old).ToAggregate() })
		count("an update of the status", valids.updatesStatus(ctx, obj, old), []runtime.Object{old, obj},
			func() error { return sub.ValidateUpdate(ctx, obj, old).ToAggregate() })
	}
	return recognized, valid
}

// TestPrepareForUpdate compares PrepareForUpdate of both strategies with apiextensions-apiserver's.
func TestPrepareForUpdate(t *testing.T) {
	kind := schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "App"}
	for _, status := range []*apiextensions.CustomResourceSubresourceStatus{nil, {}} {
		main := customresource.NewStrategy(typer{}, true, kind, nil, nil, nil, status, nil, nil)
		sub := customresource.NewStatusStrategy(main)
		for seed := range int64(1000) {
			r := &randomSchemas{rand.New(rand.NewSource(seed))}
			props := &apiextensions.JSONSchemaProps{Type: "object", Properties: map[string]apiextensions.JSONSchemaProps{
				"spec": r.schema(2), "status": r.schema(2)}}
			old, obj := r.object(props), r.object(props)
			if r.Intn(2) == 0 {
				spec := obj.Object["spec"]
				if obj = old.DeepCopy(); r.Intn(2) == 0 {
					obj.Object["spec"] = spec
				}
			}
			for name, s := range map[string][2]strategy{
				"main":   {main, lazyStrategy{main, nil, status != nil}},
				"status": {sub, lazyStatusStrategy{lazyStrategy{sub, nil, true}}},
			} {
				want, got, before := obj.DeepCopy(), obj.DeepCopy(), old.DeepCopy()
				s[0].PrepareForUpdate(t.Context(), want, old.DeepCopy())
				s[1].PrepareForUpdate(t.Context(), got, before)
				if diff := cmp.Diff(want, got); diff != "" {
					t.Fatalf("seed %d, %s (-upstream +ours):\n%s", seed, name, diff)
				}
				if diff := cmp.Diff(old, before); diff != "" {
					t.Fatalf("seed %d, %s changed the old object:\n%s", seed, name, diff)
				}
			}
		}
	}
}

// FuzzCopyStored compares copies of objects with the decoded encodings.
func FuzzCopyStored(f *testing.F) {
	for _, seed := range []string{
		`{"apiVersion":"example.com/v1","kind":"App","metadata":{"name":"a","labels":{}},"spec":{"free":{"a":[1,null,{}]},"unknown":1}}`,
		`{"apiVersion":"example.com/v1","kind":"App","metadata":{"name":"a","generation":1},"spec":{"free":2.0,"ports":[{"name":"a"}]},"status":{"other":{"a":"\u2028<"}}}`,
		`{"apiVersion":"example.com/v1","kind":"App","spec":{"free":1e300,"atomic":[],"whole":{},"map":null}}`,
	} {
		f.Add([]byte(seed))
	}
	shape := everythingShape(f)
	gv := schema.GroupVersion{Group: "example.com", Version: "v1"}
	codec := &storageCodec{shape: shape, stored: gv, served: gv}
	f.Fuzz(func(t *testing.T, data []byte) {
		u := &unstructured.Unstructured{}
		if utiljson.Unmarshal(data, &u.Object) != nil || u.Object == nil {
			return
		}
		before := u.DeepCopy()
		got, ok := codec.CopyStored(u, nil)
		if !ok {
			return
		}
		encoded, err := runtime.Encode(runtime.NewCodec(codec, codec), u)
		if err != nil {
			t.Fatal(err)
		}
		want, _, err := codec.Decode(encoded, nil, nil)
		if err != nil {
			t.Fatalf("copied what cannot be decoded: %v", err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-decoded +copied):\n%s", data, diff)
		}
		if diff := cmp.Diff(before, u); diff != "" {
			t.Errorf("%s was changed:\n%s", data, diff)
		}
	})
}

// TestCopyStored does the same for random objects. Most of them must be copied, and the copies must share equal parts
// with the previous object.
func TestCopyStored(t *testing.T) {
	gv := schema.GroupVersion{Group: "example.com", Version: "v1"}
	codec, random := &storageCodec{shape: everythingShape(t), stored: gv, served: gv}, rand.New(rand.NewSource(1))
	copied := 0
	var last, unchanged runtime.Object
	for range 500 {
		u := chosen(t, random)
		if before, ok := last.(*unstructured.Unstructured); ok && random.Intn(2) == 0 {
			u.Object["spec"] = before.Object["spec"]
		}
		got, ok := codec.CopyStored(u, last)
		if !ok {
			continue
		}
		copied++
		encoded, err := runtime.Encode(runtime.NewCodec(codec, codec), u)
		if err != nil {
			t.Fatal(err)
		}
		want, _, err := codec.Decode(encoded, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("%v (-decoded +copied):\n%s", u.Object, diff)
		}
		if diff := cmp.Diff(unchanged, last); diff != "" {
			t.Fatalf("the object before was changed:\n%s", diff)
		}
		last, unchanged = got, got.DeepCopyObject()
	}
	if copied < 200 {
		t.Errorf("copied %d of 500 objects", copied)
	}
}

func upstreamOf(t *testing.T, s *schemaValidator) validation.SchemaValidator {
	t.Helper()
	v, err := s.upstream()
	if err != nil {
		t.Fatal(err)
	}
	return v.SchemaValidator
}

// randomSchemas makes schemas, and values that are often valid.
type randomSchemas struct{ *rand.Rand }

func pick[T any](r *randomSchemas, choices ...T) T { return choices[r.Intn(len(choices))] }

func (r *randomSchemas) schema(depth int) apiextensions.JSONSchemaProps {
	out := apiextensions.JSONSchemaProps{Nullable: r.Intn(4) == 0}
	kinds := []string{"string", "string", "integer", "integer", "number", "boolean", "either", "any"}
	if depth > 0 {
		kinds = append(kinds, "object", "object", "object", "object", "array", "array")
	}
	size := func() *int64 { return pick(r, nil, nil, new(int64(r.Intn(3)))) }
	bound := func() *float64 {
		return pick(r, nil, nil, new(float64(r.Intn(5)-1)), new(pick(r, 0.5, 1e10, 3e9, -1, 1e300)))
	}
	switch kind := pick(r, kinds...); kind {
	case "string":
		out.Type, out.MinLength, out.MaxLength = kind, size(), size()
		out.Format = pick(r, "", "", "", "date", "date-time", "ipv4", "byte", "uuid", "unknown", "int32", "k8s-short-name")
		out.Pattern = pick(r, "", "", "", "^a", "^[a-zé]*$")
	case "integer", "number":
		out.Type, out.Minimum, out.Maximum = kind, bound(), bound()
		out.ExclusiveMinimum, out.ExclusiveMaximum = r.Intn(4) == 0, r.Intn(4) == 0
		out.Format = pick(r, "", "", "int32", "int64", "float", "double", "unknown")
		out.MultipleOf = pick(r, nil, nil, nil, new(2.0), new(0.5))
	case "boolean":
		out.Type = kind
	case "either":
		out.XIntOrString = true
		if r.Intn(2) == 0 {
			out.AnyOf = []apiextensions.JSONSchemaProps{{Type: "integer"}, {Type: "string"}}
		}
	case "any":
		out.XPreserveUnknownFields = new(true)
		out.Format = pick(r, "", "", "date")
	case "array":
		items := r.schema(depth - 1)
		out.Type, out.MinItems, out.MaxItems = kind, size(), size()
		out.Items = &apiextensions.JSONSchemaPropsOrArray{Schema: &items}
		out.XListType = pick(r, nil, nil, new("atomic"), new("set"))
	case "object":
		out.Type, out.MinProperties, out.MaxProperties = kind, size(), pick(r, nil, size())
		if r.Intn(3) == 0 {
			inner := r.schema(depth - 1)
			out.AdditionalProperties = &apiextensions.JSONSchemaPropsOrBool{Allows: true, Schema: &inner}
			break
		}
		out.Properties = map[string]apiextensions.JSONSchemaProps{}
		for _, name := range []string{"a", "b", "c"} {
			if r.Intn(3) > 0 {
				out.Properties[name] = r.schema(depth - 1)
			}
			if r.Intn(4) == 0 {
				out.Required = append(out.Required, name)
			}
		}
		switch r.Intn(12) {
		case 0:
			out.Not = &apiextensions.JSONSchemaProps{Required: []string{"a"}}
		case 1:
			out.OneOf = []apiextensions.JSONSchemaProps{{Required: []string{"a"}}, {Required: []string{"b"}}}
		case 2:
			out.AnyOf = []apiextensions.JSONSchemaProps{{Required: []string{"a"}}, {Required: []string{"b"}}}
		case 3:
			out.AllOf = []apiextensions.JSONSchemaProps{{MaxProperties: new(int64(2))}, {Required: []string{"c"}}}
		case 4:
			out.AdditionalProperties = &apiextensions.JSONSchemaPropsOrBool{}
		}
	}
	if r.Intn(8) == 0 {
		for range 3 {
			out.Enum = append(out.Enum, r.scalar())
		}
	}
	if r.Intn(40) == 0 {
		out.XEmbeddedResource = true
	}
	return out
}

func (r *randomSchemas) scalar() any {
	return pick[any](r, "", "a", "ab", "é", "abc", "2020-01-02", "10.0.0.1", "2020-01-02T03:04:05Z", int64(0), int64(1),
		int64(2), int64(-1), int64(3_000_000_000), int64(1)<<60, 0.5, 2.0, 1e300, true, false, nil)
}

// value returns a value for a property, mostly of the right type.
func (r *randomSchemas) value(properties *map[string]apiextensions.JSONSchemaProps, name string) any {
	s, ok := (*properties)[name]
	if !ok || r.Intn(12) == 0 {
		return pick(r, r.scalar(), any([]any{r.scalar()}), any(map[string]any{"a": r.scalar()}))
	}
	return r.valueOf(&s)
}

func (r *randomSchemas) valueOf(s *apiextensions.JSONSchemaProps) any {
	if len(s.Enum) > 0 && r.Intn(2) == 0 {
		return pick(r, s.Enum...)
	}
	switch s.Type {
	case "string":
		return pick[any](r, "", "a", "ab", "é", "abc", "2020-01-02", "10.0.0.1", "2020-01-02T03:04:05Z", "YQ==")
	case "integer":
		return pick[any](r, int64(0), int64(1), int64(2), int64(3), int64(3_000_000_000), int64(1)<<60, 2.0)
	case "number":
		return pick[any](r, int64(0), int64(1), int64(1)<<60, 0.5, 2.0, 1e300, -1.5)
	case "boolean":
		return r.Intn(2) == 0
	case "array":
		list := []any{}
		for range r.Intn(3) {
			list = append(list, r.valueOf(s.Items.Schema))
		}
		if len(list) > 0 && r.Intn(4) == 0 {
			list = append(list, runtime.DeepCopyJSONValue(list[0])) // which a set refuses
		}
		return list
	case "object":
		m := map[string]any{}
		for _, name := range []string{"a", "b", "c", "d"} {
			switch {
			case r.Intn(4) == 0:
			case s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil:
				m[name] = r.valueOf(s.AdditionalProperties.Schema)
			case name != "d" || r.Intn(4) == 0:
				m[name] = r.value(&s.Properties, name)
			}
		}
		return m
	}
	return r.scalar()
}

func (r *randomSchemas) object(props *apiextensions.JSONSchemaProps) *unstructured.Unstructured {
	metadata := map[string]any{"name": pick(r, "a", "a", "a", "a", "B"), "namespace": "b", "uid": pick(r, "u", "u", "u", "v"),
		"resourceVersion": "1", "creationTimestamp": "2020-01-02T03:04:05Z", "generation": int64(1)}
	optional := map[string][]any{
		"labels":                     {map[string]any{"a": "b"}, map[string]any{"a": "é"}, map[string]any{"a": int64(1)}},
		"annotations":                {map[string]any{"a/b": "c"}, map[string]any{"/": "c"}},
		"finalizers":                 {[]any{"a.b/c"}, []any{"foregroundDeletion", "orphan"}, []any{}},
		"ownerReferences":            {[]any{map[string]any{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u", "controller": true}}, []any{map[string]any{"apiVersion": "", "kind": "Pod", "name": "p", "uid": "u"}}},
		"managedFields":              {[]any{map[string]any{"manager": "m", "operation": "Update", "apiVersion": "example.com/v1", "fieldsType": "FieldsV1", "time": "2020-01-02T03:04:05Z", "fieldsV1": map[string]any{"f:spec": map[string]any{}}}}, []any{map[string]any{"manager": "m", "operation": "Other"}}},
		"deletionTimestamp":          {"2020-01-02T03:04:05Z"},
		"deletionGracePeriodSeconds": {int64(0), int64(5)},
		"generateName":               {"a-", "A-"},
		"unknown":                    {"a"},
	}
	for _, name := range slices.Sorted(maps.Keys(optional)) {
		if values := optional[name]; r.Intn(8) == 0 {
			metadata[name] = values[r.Intn(2)%len(values)]
		}
	}
	object := map[string]any{"apiVersion": "example.com/v1", "kind": pick(r, "App", "App", "App", "App", "Other"), "metadata": metadata}
	for _, name := range []string{"spec", "status"} {
		if r.Intn(6) > 0 {
			object[name] = r.value(&props.Properties, name)
		}
	}
	return (&unstructured.Unstructured{Object: object}).DeepCopy()
}
