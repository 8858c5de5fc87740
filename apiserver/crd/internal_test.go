package crd

import (
	"bytes"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	v1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apiextensions-apiserver/pkg/controller/openapi/builder"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"sigs.k8s.io/yaml"
)

// FuzzEncode compares the encoder with the one it stands in for.
func FuzzEncode(f *testing.F) {
	for _, seed := range []string{
		`{}`, `{"a":null,"b":[1,-2,3.5,1e300,true,"x"],"c":{"z":{},"y":[]}}`, `{"t":"<&>\u2028\u0001é😀\"\\\u007f"}`, `{"\u003c":"` + strings.Repeat("x", 100) + `"}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		object := map[string]any{}
		if json.Unmarshal(data, &object) != nil {
			return
		}
		u := &unstructured.Unstructured{Object: object}
		list := &unstructured.UnstructuredList{Object: map[string]any{"kind": "List", "metadata": map[string]any{}}, Items: []unstructured.Unstructured{*u, *u}}
		for _, info := range mediaTypes()[:1] {
			for _, obj := range []runtime.Object{u, list, &unstructured.UnstructuredList{}} {
				var got, want bytes.Buffer
				if err := info.Serializer.Encode(obj, &got); err != nil {
					t.Fatal(err)
				}
				if err := info.Serializer.(textSerializer).Serializer.Encode(obj, &want); err != nil {
					t.Fatal(err)
				}
				if got.String() != want.String() {
					t.Errorf("got  %s\nwant %s", got.String(), want.String())
				}
			}
		}
	})
}

// FuzzDecode compares strict decoding with apimachinery's serializer.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{
		`{"apiVersion":"example.com/v1","kind":"App","spec":{"a":[1,-2.5,1e300,9007199254740993,null,{"b":"\u00e9<\ud800"}]}}`,
		`{"apiVersion":"v1","kind":"App","KIND":1}`, `{"apiVersion":"v1","kind":"App","a":1,"a":2}`, `{"apiVersion":"a/b/c","kind":"App"}`,
		`{"apiVersion":1,"kind":"App"}`, `{"kind":"App"}`, `{"apiVersion":"v1","kind":""}`, `null`, `[]`, `{} x`, `{"apiVersion":"v1","kind":"App"} `,
	} {
		f.Add([]byte(seed))
	}
	serializer := mediaTypes()[0].StrictSerializer.(textSerializer)
	f.Fuzz(func(t *testing.T, data []byte) {
		got, kind, err := serializer.Decode(data, nil, &unstructured.Unstructured{})
		want, wantKind, wantErr := serializer.Serializer.Decode(data, nil, &unstructured.Unstructured{})
		if diff := cmp.Diff(want, got); diff != "" || fmt.Sprint(wantErr) != fmt.Sprint(err) {
			t.Errorf("%s: error %v, want %v (-upstream +ours):\n%s", data, err, wantErr, diff)
		}
		if diff := cmp.Diff(wantKind, kind); diff != "" {
			t.Errorf("%s is of another kind (-upstream +ours):\n%s", data, diff)
		}
	})
}

// FuzzPlainMetadata checks that metadata which is called plain comes back from an ObjectMeta as it
// went in.
func FuzzPlainMetadata(f *testing.F) {
	for _, seed := range []string{
		`{"name":"a","labels":{"a":"b"},"creationTimestamp":"2024-01-02T03:04:05Z","generation":1}`,
		`{"name":"","labels":{},"creationTimestamp":null,"generation":0}`,
		`{"creationTimestamp":"2024-13-02T03:04:05Z","finalizers":["x"]}`,
		`{"deletionTimestamp":"0001-01-01T00:00:00Z","deletionGracePeriodSeconds":0}`,
		`{"ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"a","uid":"","controller":false}]}`,
		`{"managedFields":[{"manager":"m","operation":"Update","time":"2024-01-02T03:04:05Z","fieldsType":"FieldsV1","fieldsV1":{"f:a":{".":{}}}}]}`,
		`{"managedFields":[{"fieldsV1":{"f:a":1}}],"unknown":1,"Name":"x"}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		metadata := map[string]any{}
		if json.Unmarshal(data, &metadata) != nil || !plainMetadata(metadata) {
			return
		}
		object := map[string]any{"metadata": runtime.DeepCopyJSON(metadata)}
		m, _, unknown, err := objectmeta.GetObjectMetaWithOptions(object, objectmeta.ObjectMetaOptions{ReturnUnknownFieldPaths: true})
		if err != nil || len(unknown) > 0 {
			t.Fatalf("%s: unknown %v, error %v", data, unknown, err)
		}
		quick, _ := decodePlainMetadata(metadata)
		withoutFields := m.DeepCopy()
		for i := range withoutFields.ManagedFields {
			withoutFields.ManagedFields[i].FieldsV1 = nil
		}
		if diff := cmp.Diff(withoutFields, quick); diff != "" {
			t.Errorf("%s is decoded differently (-upstream +ours):\n%s", data, diff)
		}
		if err := objectmeta.SetObjectMeta(object, m); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(metadata, object["metadata"]); diff != "" {
			t.Errorf("%s (-before +after):\n%s", data, diff)
		}
	})
}

func TestPlainMetadataIsCommon(t *testing.T) {
	for _, data := range []string{
		`{"name":"a","namespace":"b","uid":"c","resourceVersion":"5","generation":1,"creationTimestamp":"2024-01-02T03:04:05Z","labels":{"a":"b"},"finalizers":["x"]}`,
		`{"generateName":"a-","ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"a","uid":"u","controller":true,"blockOwnerDeletion":true}]}`,
		`{"managedFields":[{"manager":"m","operation":"Update","apiVersion":"v1","time":"2024-01-02T03:04:05Z","fieldsType":"FieldsV1","fieldsV1":{"f:a":{".":{}}},"subresource":"status"}]}`,
	} {
		metadata := map[string]any{}
		if err := json.Unmarshal([]byte(data), &metadata); err != nil || !plainMetadata(metadata) {
			t.Errorf("not plain: %s", data)
		}
	}
}

func TestEncodeErrors(t *testing.T) {
	u := &unstructured.Unstructured{Object: map[string]any{"a": []any{map[string]any{"b": func() {}}}}}
	var unsupported *stdjson.UnsupportedTypeError
	if err := encodeObject(u, &bytes.Buffer{}); !errors.As(err, &unsupported) {
		t.Errorf("error %v", err)
	}
}

func TestUpdateStatus(t *testing.T) {
	wanted := apiextensions.CustomResourceDefinitionNames{Plural: "foos", Singular: "foo", ShortNames: []string{"f", "fo"}, Kind: "Foo", ListKind: "FooList", Categories: []string{"all"}}
	for name, test := range map[string]struct {
		held             apiextensions.CustomResourceDefinitionNames
		resources, kinds []string // taken
		established      bool     // before
		reason           string
		want             apiextensions.CustomResourceDefinitionNames
	}{
		"free": {reason: "NoConflicts", want: wanted},
		"held": {held: wanted, resources: []string{"foos", "foo", "f", "fo"}, kinds: []string{"Foo", "FooList"}, reason: "NoConflicts", want: wanted},
		"plural": {
			resources: []string{"foos"}, reason: "PluralConflict",
			want: apiextensions.CustomResourceDefinitionNames{Singular: "foo", ShortNames: []string{"f", "fo"}, Kind: "Foo", ListKind: "FooList", Categories: []string{"all"}},
		},
		"singular": {
			resources: []string{"foo"}, reason: "SingularConflict",
			want: apiextensions.CustomResourceDefinitionNames{Plural: "foos", ShortNames: []string{"f", "fo"}, Kind: "Foo", ListKind: "FooList", Categories: []string{"all"}},
		},
		"one short name of two": {
			resources: []string{"fo"}, reason: "ShortNamesConflict",
			want: apiextensions.CustomResourceDefinitionNames{Plural: "foos", Singular: "foo", Kind: "Foo", ListKind: "FooList", Categories: []string{"all"}},
		},
		"kind": {
			kinds: []string{"Foo"}, reason: "KindConflict",
			want: apiextensions.CustomResourceDefinitionNames{Plural: "foos", Singular: "foo", ShortNames: []string{"f", "fo"}, ListKind: "FooList", Categories: []string{"all"}},
		},
		"list kind": {
			kinds: []string{"FooList"}, reason: "ListKindConflict",
			want: apiextensions.CustomResourceDefinitionNames{Plural: "foos", Singular: "foo", ShortNames: []string{"f", "fo"}, Kind: "Foo", Categories: []string{"all"}},
		},
		"a kind is no resource": {resources: []string{"Foo"}, kinds: []string{"foos"}, reason: "NoConflicts", want: wanted},
		"the old name stays": {
			held: apiextensions.CustomResourceDefinitionNames{Plural: "foos", Singular: "old", Kind: "Foo", ListKind: "FooList"}, resources: []string{"foo"},
			established: true, reason: "SingularConflict",
			want: apiextensions.CustomResourceDefinitionNames{Plural: "foos", Singular: "old", ShortNames: []string{"f", "fo"}, Kind: "Foo", ListKind: "FooList", Categories: []string{"all"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			crd := &apiextensions.CustomResourceDefinition{}
			crd.Spec.Names, crd.Status.AcceptedNames = wanted, test.held
			if test.established {
				setCondition(crd, apiextensions.Established, apiextensions.ConditionTrue, "InitialNamesAccepted", "")
			}
			taken := noNames()
			taken.resources.Insert(test.resources...)
			taken.kinds.Insert(test.kinds...)
			updateStatus(crd, taken)
			if diff := cmp.Diff(test.want, crd.Status.AcceptedNames); diff != "" {
				t.Errorf("accepted names (-want +got):\n%s", diff)
			}
			if c := apiextensions.FindCRDCondition(crd, apiextensions.NamesAccepted); c.Reason != test.reason || (c.Status == apiextensions.ConditionTrue) != (test.reason == "NoConflicts") {
				t.Errorf("NamesAccepted: %+v", c)
			}
			if established(crd) != (test.reason == "NoConflicts" || test.established) {
				t.Error("Established is wrong")
			}
			again := crd.DeepCopy()
			updateStatus(again, taken)
			if diff := cmp.Diff(crd, again); diff != "" {
				t.Errorf("a second update changes the status:\n%s", diff)
			}
		})
	}
}

func TestInstanceGate(t *testing.T) {
	g := newInstanceGate(t.Context())
	for range 2 {
		if !g.enter() {
			t.Fatal("cannot enter")
		}
	}
	drained, first := g.close()
	if again, second := g.close(); !first || second || again != drained {
		t.Error("closed twice")
	}
	if g.enter() {
		t.Error("entered after it was closed")
	}
	g.leave()
	select {
	case <-drained:
		t.Error("drained with a creation under way")
	default:
	}
	g.leave()
	<-drained
}

// TestTypes compares the merge schemas with the ones derived from apiextensions-apiserver's OpenAPI document of the
// same definition.
func TestTypes(t *testing.T) {
	crd := &v1.CustomResourceDefinition{}
	if err := yaml.Unmarshal([]byte(everything), crd); err != nil {
		t.Fatal(err)
	}
	document, err := builder.BuildOpenAPIV3(crd, "v1", builder.Options{})
	if err != nil {
		t.Fatal(err)
	}
	want, err := managedfields.NewTypeConverter(document.Components.Schemas, false)
	if err != nil {
		t.Fatal(err)
	}
	s := everythingShape(t)
	for _, object := range []string{
		"{}",
		"metadata: {name: a, labels: {a: b}, finalizers: [x], ownerReferences: [{uid: u, name: a}]}",
		"spec: {ports: [{name: a, port: 1}, {name: b}], set: [a, b], atomic: [a], whole: {a: b}, free: {a: [{b: c}]}, either: 5, map: {a: {x: z}}}",
		"spec: {template: {apiVersion: v1, kind: Pod, metadata: {name: a, labels: {a: b}}, spec: {a: 1}}, templates: [{apiVersion: v1, kind: Pod, metadata: {labels: {a: b}}}]}",
		"status: {conditions: [{type: Ready, status: 'True'}]}",
	} {
		u := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte("{apiVersion: example.com/v1, kind: App}"), &u.Object); err != nil {
			t.Fatal(err)
		}
		if err := yaml.Unmarshal([]byte(object), &u.Object); err != nil {
			t.Fatal(err)
		}
		var sets [2]string
		for i, types := range []managedfields.TypeConverter{want, customTypes(s)} {
			value, err := types.ObjectToTyped(u)
			if err != nil {
				t.Fatal(err)
			}
			set, err := value.ToFieldSet()
			if err != nil {
				t.Fatal(err)
			}
			sets[i] = strings.ReplaceAll(set.String(), " ", "\n")
		}
		if diff := cmp.Diff(sets[0], sets[1]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", object, diff)
		}
	}
}

func everythingDefinition(t testing.TB) *apiextensions.CustomResourceDefinition {
	t.Helper()
	crd, hub := &v1.CustomResourceDefinition{}, &apiextensions.CustomResourceDefinition{}
	if err := yaml.Unmarshal([]byte(everything), crd); err != nil {
		t.Fatal(err)
	}
	scheme().Default(crd)
	if err := scheme().Convert(crd, hub, nil); err != nil {
		t.Fatal(err)
	}
	return hub
}

func everythingShape(t testing.TB) *shape {
	t.Helper()
	hub := everythingDefinition(t)
	crd, err := external(hub)
	if err != nil {
		t.Fatal(err)
	}
	texts, err := schemaTextsOf(hub)
	if err != nil {
		t.Fatal(err)
	}
	kind := &customKind{Kinds: &Kinds{}, definition: hub, crd: crd, names: crd.Spec.Names}
	if err := kind.compileSchemas(texts, nil); err != nil {
		t.Fatal(err)
	}
	return kind.shape
}

const everything = `
metadata: {name: apps.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: apps, singular: app, kind: App, listKind: AppList}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              ports: &ports
                type: array
                x-kubernetes-list-type: map
                x-kubernetes-list-map-keys: [name]
                items: {type: object, required: [name], properties: {name: {type: string}, port: {type: integer, default: 80}}}
              set: {type: array, x-kubernetes-list-type: set, items: {type: string}}
              atomic: {type: array, items: {type: string}}
              whole: {type: object, x-kubernetes-map-type: atomic, additionalProperties: {type: string}}
              free: {type: object, x-kubernetes-preserve-unknown-fields: true}
              either: {x-kubernetes-int-or-string: true}
              map: {type: object, additionalProperties: {type: object, properties: {x: {type: string}}}}
              template: &template {type: object, x-kubernetes-embedded-resource: true, x-kubernetes-preserve-unknown-fields: true}
              templates: {type: array, items: *template}
          status:
            type: object
            x-kubernetes-preserve-unknown-fields: true
            properties:
              conditions: {type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [type], items: {type: object, required: [type], properties: {type: {type: string}, status: {type: string}}}}
`
