package crd

import (
	"maps"
	"math/rand"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/json"
	upstream "k8s.io/apimachinery/pkg/util/managedfields"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/yaml"

	"flyball.dev/apiserver/managedfields"
)

// choices are values for the fields of resources of the kind that has everything.
var choices = map[string]map[string][]string{
	"metadata": {
		"labels":          {`{}`, `{a: b}`, `{"é\"<": "", c: d}`},
		"annotations":     {`{a/b: c}`},
		"finalizers":      {`[]`, `[x/y, a/b]`, `[a/b, a/b]`},
		"ownerReferences": {`[{apiVersion: v1, kind: Pod, name: p, uid: "2", controller: true}, {apiVersion: v1, kind: Pod, name: q, uid: "1"}]`},
		"generateName":    {`a-`},
		"generation":      {`7`},
		"uid":             {`u`},
	},
	"spec": {
		"ports":     {`[]`, `[{name: b}, {name: a, port: 1}]`, `[{name: a}, {name: a, port: 2}]`, `[{port: 1}]`, `null`},
		"set":       {`[]`, `[b, a]`, `[a, a]`, `["é<\""]`},
		"atomic":    {`[]`, `[b, a, a]`},
		"whole":     {`{}`, `{a: b}`},
		"free":      {`{}`, `{a: [{b: c}], d: {e: {}}, f: null}`, `[1, x]`, `1.5`},
		"either":    {`5`, `five`},
		"map":       {`{}`, `{a: {x: z}, b: {}, c: null}`},
		"template":  {`{apiVersion: v1, kind: Pod, metadata: {name: a, labels: {a: b}}, spec: {a: 1}}`},
		"templates": {`[{apiVersion: v1, kind: Pod, metadata: {labels: {a: b}}}]`},
	},
	"status": {
		"conditions": {`[{type: Ready, status: "True"}]`, `[]`},
		"other":      {`{a: 1}`},
	},
}

// chosen returns a resource with a random selection of the choices.
func chosen(t *testing.T, random *rand.Rand) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "App", "metadata": map[string]any{"name": "a", "namespace": "b"}}}
	for _, part := range slices.Sorted(maps.Keys(choices)) {
		fields, _ := u.Object[part].(map[string]any)
		if fields == nil {
			if random.Intn(5) == 0 {
				continue
			}
			fields = map[string]any{}
			u.Object[part] = fields
		}
		for _, name := range slices.Sorted(maps.Keys(choices[part])) {
			texts := choices[part][name]
			if text := texts[random.Intn(len(texts))]; random.Intn(2) == 0 {
				fields[name] = parsed(t, text)
			}
		}
	}
	return u
}

func parsed(t *testing.T, text string) any {
	t.Helper()
	data, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	var v any
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

var byTester = managedfields.Write{Manager: "tester", Operation: metav1.ManagedFieldsOperationUpdate}

// TestManagedFieldsOfCreations compares the managed fields of new resources with apimachinery's field manager.
func TestManagedFieldsOfCreations(t *testing.T) {
	types, gvk := customTypes(everythingShape(t)), schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "App"}
	for name, reset := range map[string]*fieldpath.Set{"nothing is reset": nil, "the status is reset": fieldpath.NewSet(fieldpath.MakePathOrDie("status"))} {
		t.Run(name, func(t *testing.T) {
			filters := fieldpath.NewExcludeFilterSetMap(map[fieldpath.APIVersion]*fieldpath.Set{"example.com/v1": reset})
			if reset == nil {
				filters = nil
			}
			general, err := upstream.NewDefaultCRDFieldManager(types, oneVersion{scheme()}, scheme(), creator{}, gvk, gvk.GroupVersion(), "", filters)
			if err != nil {
				t.Fatal(err)
			}
			c, random, done := managedfields.ForUnstructured(types, gvk, reset), rand.New(rand.NewSource(1)), 0
			const rounds = 200
			for range rounds {
				u := chosen(t, random)
				mine := u.DeepCopy()
				if !c.Update(nil, mine, byTester) {
					if diff := cmp.Diff(u, mine); diff != "" {
						t.Fatalf("changed an object that it does not support:\n%s", diff)
					}
					continue
				}
				done++
				live, _ := creator{}.New(gvk)
				theirs, err := general.Update(live, u.DeepCopy(), "tester")
				if err != nil {
					t.Fatalf("upstream fails: %v", err)
				}
				if diff := cmp.Diff(timeless(theirs.(*unstructured.Unstructured)), timeless(mine)); diff != "" {
					t.Fatalf("of %v (-upstream +ours):\n%s", u.Object, diff)
				}
			}
			if done < rounds/10 {
				t.Errorf("%d of %d creations supported", done, rounds)
			}
		})
	}
}

// TestManagedFieldsOfUpdates compares the managed fields after many updates by several managers with apimachinery's
// field manager.
func TestManagedFieldsOfUpdates(t *testing.T) {
	types, gvk := customTypes(everythingShape(t)), schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "App"}
	for _, subresource := range []string{"", "status"} {
		t.Run("through "+subresource, func(t *testing.T) {
			reset := fieldpath.NewSet(fieldpath.MakePathOrDie("status"))
			if subresource != "" {
				reset = fieldpath.NewSet(fieldpath.MakePathOrDie("spec"), fieldpath.MakePathOrDie("metadata", "labels"))
			}
			general, err := upstream.NewDefaultCRDFieldManager(types, oneVersion{scheme()}, scheme(), creator{}, gvk, gvk.GroupVersion(), subresource,
				fieldpath.NewExcludeFilterSetMap(map[fieldpath.APIVersion]*fieldpath.Set{"example.com/v1": reset}))
			if err != nil {
				t.Fatal(err)
			}
			u, random, done := managedfields.ForUnstructured(types, gvk, reset), rand.New(rand.NewSource(1)), 0
			const rounds, writes = 60, 6
			for range rounds {
				stored := chosen(t, random)
				stored.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "first", Operation: metav1.ManagedFieldsOperationUpdate,
					APIVersion: "example.com/v1", FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:finalizers":{}}}`)}})
				for range writes {
					stored.SetUID("1")
					next := mixed(stored, chosen(t, random), random)
					manager := string(rune('a' + random.Intn(3)))
					mine, old := next.DeepCopy(), stored.DeepCopy()
					supported := u.Update(old, mine, managedfields.Write{Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, Subresource: subresource})
					if diff := cmp.Diff(stored, old); diff != "" {
						t.Fatalf("changed the old resource:\n%s", diff)
					}
					theirs, err := general.Update(stored.DeepCopy(), next.DeepCopy(), manager)
					if err != nil {
						continue // an element without a key
					}
					if supported {
						done++
						if diff := cmp.Diff(timeless(theirs.DeepCopyObject().(*unstructured.Unstructured)), timeless(mine.DeepCopy())); diff != "" {
							t.Fatalf("of %v\nafter %v (-upstream +ours):\n%s", next.Object, stored.Object, diff)
						}
					}
					stored = theirs.(*unstructured.Unstructured)
					entries := stored.GetManagedFields()
					for i := range entries {
						entries[i].Time = nil
					}
					stored.SetManagedFields(entries)
				}
			}
			if done < rounds*writes/3 {
				t.Errorf("%d of %d updates supported", done, rounds*writes)
			}
		})
	}
}

// TestApplies compares the objects and the managed fields after many applies by several managers with apimachinery's
// field manager.
func TestApplies(t *testing.T) {
	types, gvk := customTypes(everythingShape(t)), schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "App"}
	general, err := upstream.NewDefaultCRDFieldManager(types, oneVersion{scheme()}, scheme(), creator{}, gvk, gvk.GroupVersion(), "", nil)
	if err != nil {
		t.Fatal(err)
	}
	u, random, done := managedfields.ForUnstructured(types, gvk, nil), rand.New(rand.NewSource(1)), 0
	const rounds, writes = 300, 6
	for range rounds {
		stored := chosen(t, random)
		stored.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "first", Operation: metav1.ManagedFieldsOperationUpdate,
			APIVersion: "example.com/v1", FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:set":{}}}`)}})
		for range writes {
			stored.SetUID("1")
			config := configured(chosen(t, random), random)
			manager, force := string(rune('a'+random.Intn(3))), random.Intn(2) == 0
			live, configBefore := stored.DeepCopy(), runtime.DeepCopyJSON(config)
			mine, supported := u.Apply(t.Context(), live, config, managedfields.Write{Manager: manager, Operation: metav1.ManagedFieldsOperationApply}, force)
			if diff := cmp.Diff(stored, live) + cmp.Diff(configBefore, config); diff != "" {
				t.Fatalf("changed the live resource or the configuration:\n%s", diff)
			}
			theirs, err := general.Apply(stored.DeepCopy(), &unstructured.Unstructured{Object: config}, manager, force)
			if err != nil {
				if supported {
					t.Fatalf("%v applied to %v: upstream has error %v", config, stored.Object, err)
				}
				continue
			}
			if supported {
				done++
				if diff := cmp.Diff(timeless(theirs.DeepCopyObject().(*unstructured.Unstructured)), timeless(mine.(*unstructured.Unstructured).DeepCopy())); diff != "" {
					t.Fatalf("%v applied to %v (-upstream +ours):\n%s", config, stored.Object, diff)
				}
			}
			stored = theirs.(*unstructured.Unstructured).DeepCopy()
			entries := stored.GetManagedFields()
			for i := range entries {
				entries[i].Time = nil
			}
			stored.SetManagedFields(entries)
		}
	}
	if done < rounds*writes/20 {
		t.Errorf("%d of %d applies supported", done, rounds*writes)
	}
}

// configured returns a configuration with a few of the fields of a resource.
func configured(u *unstructured.Unstructured, random *rand.Rand) map[string]any {
	config := map[string]any{"apiVersion": u.Object["apiVersion"], "kind": u.Object["kind"]}
	metadata := map[string]any{"name": u.GetName()}
	if labels := u.GetLabels(); len(labels) > 0 {
		metadata["labels"] = u.Object["metadata"].(map[string]any)["labels"]
	}
	config["metadata"] = metadata
	for _, part := range []string{"spec", "status"} {
		fields, _ := u.Object[part].(map[string]any)
		few := map[string]any{}
		for _, name := range slices.Sorted(maps.Keys(fields)) {
			if random.Intn(4) == 0 {
				few[name] = fields[name]
			}
		}
		if len(few) > 0 {
			config[part] = few
		}
	}
	return config
}

// mixed returns a copy of a resource with some fields of another one.
func mixed(u, other *unstructured.Unstructured, random *rand.Rand) *unstructured.Unstructured {
	u = u.DeepCopy()
	for _, part := range []string{"metadata", "spec", "status"} {
		from, _ := other.Object[part].(map[string]any)
		to, _ := u.Object[part].(map[string]any)
		if from == nil || to == nil {
			if random.Intn(2) == 0 && part != "metadata" {
				u.Object[part] = other.Object[part]
				if other.Object[part] == nil {
					delete(u.Object, part)
				}
			}
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(choices[part])) {
			switch value, ok := from[name]; {
			case random.Intn(3) > 0 || name == "uid":
			case ok:
				to[name] = value
			default:
				delete(to, name)
			}
		}
	}
	return u
}

// oneVersion is a convertor of a kind with one version.
type oneVersion struct{ *runtime.Scheme }

func (oneVersion) ConvertToVersion(in runtime.Object, _ runtime.GroupVersioner) (runtime.Object, error) {
	return in, nil
}

// timeless replaces the times in the managed fields of a resource by their lengths.
func timeless(u *unstructured.Unstructured) *unstructured.Unstructured {
	managed, _, _ := unstructured.NestedSlice(u.Object, "metadata", "managedFields")
	for _, entry := range managed {
		if text, ok := entry.(map[string]any)["time"].(string); ok {
			entry.(map[string]any)["time"] = len(text)
		}
	}
	if managed != nil {
		u.Object["metadata"].(map[string]any)["managedFields"] = managed
	}
	return u
}

func TestWritesLeftToTheFieldManager(t *testing.T) {
	c := managedfields.ForUnstructured(customTypes(everythingShape(t)), schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "App"}, nil)
	app := func(metadata any) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "App", "metadata": metadata}}
	}
	for name, u := range map[string]*unstructured.Unstructured{
		"managed":           app(map[string]any{"managedFields": []any{map[string]any{"manager": "me"}}}),
		"reset":             app(map[string]any{"managedFields": []any{}}),
		"no metadata":       app(nil),
		"kind of no schema": {Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Other", "metadata": map[string]any{}}},
	} {
		if c.Update(nil, u, byTester) {
			t.Errorf("%s: not left to the field manager", name)
		}
	}
}
