package managedfields

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand"
	"reflect"
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/randfill"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// history writes an object many times, by several managers, with both the updater and the field manager, and compares
// the results.
type history struct {
	comparison
	t       testing.TB
	objects *randfill.Filler
	words   *rand.Rand
	stored  runtime.Object
	configs map[string]map[string]any // last applied, by manager
}

// create stores a first object; it returns false if the field manager cannot.
func (h *history) create() bool {
	first := h.random()
	first.(metav1.Object).SetUID("")
	managed, err := createdUpstream(h.t, h.manager, first)
	if err != nil {
		return false
	}
	first.(metav1.Object).SetUID("1")
	first.(metav1.Object).SetManagedFields(managed)
	age(first.(metav1.Object), h.words)
	h.stored = first
	return len(managed) > 0
}

func (h *history) random() runtime.Object {
	obj := newObject(h.t, h.gvk)
	h.objects.Fill(obj)
	plain(reflect.ValueOf(obj), h.words)
	obj.(metav1.Object).SetManagedFields(nil)
	obj.GetObjectKind().SetGroupVersionKind(h.gvk)
	return obj
}

// changed returns a copy of the stored object with some fields of another object.
func (h *history) changed() runtime.Object {
	obj := h.stored.DeepCopyObject()
	mix(reflect.ValueOf(obj).Elem(), reflect.ValueOf(h.random()).Elem(), h.words, 0)
	m := obj.(metav1.Object)
	m.SetUID("1")
	m.SetManagedFields(h.stored.(metav1.Object).GetManagedFields())
	obj.GetObjectKind().SetGroupVersionKind(h.gvk)
	return obj
}

// mix sets some parts of a value to the parts of another value of the same type.
func mix(to, from reflect.Value, random *rand.Rand, depth int) {
	switch to.Kind() {
	case reflect.Struct:
		for i := range to.NumField() {
			if to.Type().Field(i).IsExported() {
				mix(to.Field(i), from.Field(i), random, depth+1)
			}
		}
	case reflect.Pointer:
		if !to.IsNil() && !from.IsNil() && random.Intn(2) == 0 {
			mix(to.Elem(), from.Elem(), random, depth+1)
		} else if random.Intn(6) == 0 {
			to.Set(from)
		}
	case reflect.Slice:
		switch {
		case to.Len() > 0 && to.Index(0).Kind() == reflect.Struct && random.Intn(3) == 0:
			for i := range min(to.Len(), from.Len()) {
				mix(to.Index(i), from.Index(i), random, depth+1)
			}
		case random.Intn(6) == 0:
			to.Set(from)
		}
	default:
		if random.Intn(6) == 0 {
			to.Set(from)
		}
	}
}

// write makes one write, and reports whether the updater supported it.
func (h *history) write() bool {
	h.t.Helper()
	next := h.changed()
	manager := "manager-" + strconv.Itoa(h.words.Intn(3))
	if h.words.Intn(4) == 0 {
		next.(metav1.Object).SetManagedFields(nil)
	}
	mine := next.DeepCopyObject()
	old := h.stored.DeepCopyObject()
	supported := h.updater.Update(old.(metav1.Object), mine.(metav1.Object), Write{Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate})
	if !reflect.DeepEqual(old, h.stored) {
		h.t.Fatal("the old object was changed")
	}
	theirs, err := h.manager.Update(h.stored.DeepCopyObject(), next.DeepCopyObject(), manager)
	switch {
	case err != nil && supported && show(mine.(metav1.Object).GetManagedFields()) != show(h.stored.(metav1.Object).GetManagedFields()):
		return false // such as an element without a key in a part that has not changed
	case err != nil:
		return false
	case !supported && !reflect.DeepEqual(mine, next):
		h.t.Fatal("changed an object that it does not support")
	case supported:
		if got, want := show(mine.(metav1.Object).GetManagedFields()), show(theirs.(metav1.Object).GetManagedFields()); got != want {
			h.t.Fatalf("%s by %s: %s\nbefore: %s", h.gvk, manager, cmp.Diff(want, got), cmp.Diff(want, show(h.stored.(metav1.Object).GetManagedFields())))
		}
	}
	h.stored = theirs
	age(theirs.(metav1.Object), h.words)
	return supported && len(theirs.(metav1.Object).GetManagedFields()) > 0
}

// age makes all entries old, so that the order of entries does not depend on when the test runs.
func age(obj metav1.Object, random *rand.Rand) {
	entries := obj.GetManagedFields()
	for i := range entries {
		then := metav1.Unix(1e9+int64(random.Intn(3)), 0)
		entries[i].Time = &then
	}
	obj.SetManagedFields(entries)
}

// apply applies a part of a random object by a manager that applies, and reports whether the updater
// supported it.
func (h *history) apply() bool {
	h.t.Helper()
	manager := "applier-" + strconv.Itoa(h.words.Intn(2))
	config := h.configs[manager]
	if config == nil || h.words.Intn(2) == 0 {
		more := thinned(h.t, h.random(), h.words)
		if config = withFields(config, more); h.words.Intn(6) == 0 {
			config = more
		}
	}
	apiVersion, kind := h.gvk.ToAPIVersionAndKind()
	config["apiVersion"], config["kind"] = apiVersion, kind
	metadata, _ := config["metadata"].(map[string]any)
	if metadata == nil {
		metadata = map[string]any{}
		config["metadata"] = metadata
	}
	for _, name := range serverMetadata {
		delete(metadata, name)
	}
	metadata["name"] = h.stored.(metav1.Object).GetName()
	force := h.words.Intn(3) > 0
	old := h.stored.DeepCopyObject()
	mine, supported := h.updater.Apply(h.t.Context(), old.(metav1.Object), runtime.DeepCopyJSON(config),
		Write{Manager: manager, Operation: metav1.ManagedFieldsOperationApply}, force)
	if !reflect.DeepEqual(old, h.stored) {
		h.t.Fatal("the old object was changed")
	}
	theirs, err := h.manager.Apply(h.stored.DeepCopyObject(), &unstructured.Unstructured{Object: runtime.DeepCopyJSON(config)}, manager, force)
	if err != nil {
		if supported {
			h.t.Fatalf("upstream refuses %v: %v", config, err)
		}
		return false
	}
	if supported {
		want, got := theirs.DeepCopyObject().(metav1.Object), copyOf(mine)
		if diff := cmp.Diff(show(want.GetManagedFields()), show(got.GetManagedFields())); diff != "" {
			h.t.Fatalf("%s: %v by %s (-upstream +ours):\n%s", h.gvk, config, manager, diff)
		}
		want.SetManagedFields(nil)
		got.SetManagedFields(nil)
		if diff := cmp.Diff(asJSON(h.t, want), asJSON(h.t, got)); diff != "" {
			h.t.Fatalf("%s: %v (-upstream +ours):\n%s", h.gvk, config, diff)
		}
	}
	h.configs[manager] = config
	h.stored = theirs
	h.stored.GetObjectKind().SetGroupVersionKind(h.gvk)
	age(theirs.(metav1.Object), h.words)
	return supported
}

// asJSON returns the JSON of an object with sorted keys, including keys in embedded raw JSON.
func asJSON(t testing.TB, obj any) string {
	t.Helper()
	text, err := json.Marshal(obj)
	if err != nil {
		t.Fatal(err)
	}
	var content any
	if err := kjson.UnmarshalCaseSensitivePreserveInts(text, &content); err != nil {
		t.Fatal(err)
	}
	if text, err = json.MarshalIndent(content, "", " "); err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// thinned returns a part of the JSON of an object.
func thinned(t testing.TB, obj runtime.Object, random *rand.Rand) map[string]any {
	t.Helper()
	var content map[string]any
	if err := kjson.UnmarshalCaseSensitivePreserveInts([]byte(asJSON(t, obj)), &content); err != nil {
		t.Fatal(err)
	}
	var thin func(fields map[string]any)
	thin = func(fields map[string]any) {
		for _, name := range slices.Sorted(maps.Keys(fields)) {
			inner, ok := fields[name].(map[string]any)
			switch {
			case fields[name] == nil || random.Intn(4) > 0 && !ok:
				delete(fields, name)
			case ok:
				thin(inner)
				if len(inner) == 0 {
					delete(fields, name)
				}
			}
		}
	}
	thin(content)
	return content
}

// withFields returns a copy of a configuration with more fields.
func withFields(config, more map[string]any) map[string]any {
	config = runtime.DeepCopyJSON(config)
	if config == nil {
		config = map[string]any{}
	}
	for name, value := range more {
		inner, ok := config[name].(map[string]any)
		other, isToo := value.(map[string]any)
		if ok && isToo {
			config[name] = withFields(inner, other)
		} else {
			config[name] = value
		}
	}
	return config
}

// TestApply compares applies and updates of objects of all kinds with apimachinery's field manager.
func TestApply(t *testing.T) {
	const writes = 6
	objects, words := randomObjects(5), rand.New(rand.NewSource(6))
	supported, all := 0, comparisons(t)
	for i, r := range all {
		h := &history{comparison: r, t: t, objects: objects, words: words, configs: map[string]map[string]any{}}
		if (i+i/2)%2 != 0 || !h.create() { // each kind with its status reset or without
			continue
		}
		for range writes {
			if words.Intn(5) == 0 {
				h.write()
			} else if h.apply() {
				supported++
			}
		}
	}
	of := writes * len(all) / 2 * 4 / 5
	t.Logf("%d of %d applies supported", supported, of)
	if supported < of/20 {
		t.Errorf("only %d of %d applies supported", supported, of)
	}
}

func TestManagedFieldsOfUpdates(t *testing.T) {
	const rounds, writes = 1, 5
	objects, words := randomObjects(3), rand.New(rand.NewSource(4))
	supported := 0
	all := comparisonsOf(t, fieldpath.NewSet(), statusIsReset, partsAreReset)
	for _, r := range all {
		for range rounds {
			h := &history{comparison: r, t: t, objects: objects, words: words}
			if !h.create() {
				continue
			}
			for range writes {
				if h.write() {
					supported++
				}
			}
		}
	}
	if of := rounds * writes * len(all); supported < of/4 {
		t.Errorf("%d of %d updates supported", supported, of)
	} else {
		t.Logf("%d of %d updates supported", supported, of)
	}
}

// TestUpdateOfPodStatus: the updater supports the update by which kubelet starts a pod, although the strategy resets parts of the metadata, and
// lists of structs have one manager.
func TestUpdateOfPodStatus(t *testing.T) {
	u, m := ForType(reflect.TypeFor[corev1.Pod](), "v1", partsAreReset), fieldManagerOf(t, podKind, partsAreReset)
	old := managedPod(t)
	next := old.DeepCopy()
	next.Status.HostIP, next.Status.HostIPs = "10.0.0.9", []corev1.HostIP{{IP: "10.0.0.9"}}
	next.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "c", Ready: true, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
		VolumeMounts: []corev1.VolumeMountStatus{{Name: "v", MountPath: "/v"}}}}
	next.OwnerReferences = []metav1.OwnerReference{{UID: "2", Name: "x"}} // is reset
	theirs, err := m.Update(old.DeepCopy(), next.DeepCopy(), "kubelet")
	if err != nil {
		t.Fatal(err)
	}
	if !u.Update(old, next, Write{Manager: "kubelet", Operation: metav1.ManagedFieldsOperationUpdate}) {
		t.Fatal("left to the field manager")
	}
	if got, want := show(next.GetManagedFields()), show(theirs.(metav1.Object).GetManagedFields()); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func FuzzUpdate(f *testing.F) {
	all := comparisonsOf(f, fieldpath.NewSet(), statusIsReset, partsAreReset)
	f.Add(int64(1), uint(7))
	f.Fuzz(func(t *testing.T, seed int64, kind uint) {
		h := &history{comparison: all[kind%uint(len(all))], t: t, objects: randomObjects(seed), words: rand.New(rand.NewSource(seed)), configs: map[string]map[string]any{}}
		if !h.create() {
			return
		}
		for range 5 {
			h.write()
			h.apply()
		}
	})
}

// managedPod returns a pod with three managers.
func managedPod(t testing.TB) *corev1.Pod {
	t.Helper()
	m := fieldManagerOf(t, podKind, fieldpath.NewSet())
	pod := simplePod()
	var stored runtime.Object = &corev1.Pod{TypeMeta: pod.TypeMeta}
	for i, change := range []func(){
		func() {},
		func() { pod.UID = "1"; pod.Labels["owner"] = "us" },
		func() {
			pod.Status.Phase = corev1.PodRunning
			pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
			pod.Status.PodIPs = []corev1.PodIP{{IP: "10.0.0.1"}}
		},
	} {
		change()
		next, err := m.Update(stored, pod.DeepCopy(), fmt.Sprint("manager-", i))
		if err != nil {
			t.Fatal(err)
		}
		stored = next
		pod = stored.(*corev1.Pod).DeepCopy()
	}
	return pod
}
