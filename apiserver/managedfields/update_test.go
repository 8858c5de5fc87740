package managedfields

import (
	"fmt"
	"math/rand"
	"reflect"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/randfill"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// history writes an object again and again, by several managers and by both the updater and the
// field manager, and compares what they make of it.
type history struct {
	comparison
	t       testing.TB
	objects *randfill.Filler
	words   *rand.Rand
	stored  runtime.Object
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

// changed returns a copy of the stored object in which some fields are those of another one.
func (h *history) changed() runtime.Object {
	obj := h.stored.DeepCopyObject()
	mix(reflect.ValueOf(obj).Elem(), reflect.ValueOf(h.random()).Elem(), h.words, 0)
	m := obj.(metav1.Object)
	m.SetUID("1")
	m.SetManagedFields(h.stored.(metav1.Object).GetManagedFields())
	obj.GetObjectKind().SetGroupVersionKind(h.gvk)
	return obj
}

// mix sets some parts of a value to those of another value of the same type.
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

func TestManagedFieldsOfUpdates(t *testing.T) {
	const rounds, writes = 2, 6
	objects, words := randomObjects(3), rand.New(rand.NewSource(4))
	supported := 0
	all := comparisons(t)
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

func FuzzUpdate(f *testing.F) {
	all := comparisons(f)
	f.Add(int64(1), uint(7))
	f.Fuzz(func(t *testing.T, seed int64, kind uint) {
		h := &history{comparison: all[kind%uint(len(all))], t: t, objects: randomObjects(seed), words: rand.New(rand.NewSource(seed))}
		if !h.create() {
			return
		}
		for range 5 {
			h.write()
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
