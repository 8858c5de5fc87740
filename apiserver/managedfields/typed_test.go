package managedfields

import (
	"fmt"
	"maps"
	"math/rand"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apifuzzer "k8s.io/apimachinery/pkg/api/apitesting/fuzzer"
	metafuzzer "k8s.io/apimachinery/pkg/apis/meta/fuzzer"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	upstream "k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/client-go/applyconfigurations"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/randfill"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"flyball.dev/apiserver/schema"
)

var statusIsReset = fieldpath.NewSet(fieldpath.MakePathOrDie("status"))

// fieldManagerOf returns apimachinery's field manager for a kind.
func fieldManagerOf(t testing.TB, gvk runtimeschema.GroupVersionKind, reset *fieldpath.Set) *upstream.FieldManager {
	t.Helper()
	m, err := upstream.NewDefaultFieldManager(schema.TypeConverter(scheme.Scheme), runtime.UnsafeObjectConvertor(scheme.Scheme),
		scheme.Scheme, scheme.Scheme, gvk, gvk.GroupVersion(), "",
		fieldpath.NewExcludeFilterSetMap(map[fieldpath.APIVersion]*fieldpath.Set{fieldpath.APIVersion(gvk.GroupVersion().String()): reset}))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// createdUpstream returns the managed fields that upstream gives to a new object.
func createdUpstream(t testing.TB, m *upstream.FieldManager, obj runtime.Object) ([]metav1.ManagedFieldsEntry, error) {
	t.Helper()
	live := newObject(t, obj.GetObjectKind().GroupVersionKind())
	out, err := m.Update(live, obj.DeepCopyObject(), "tester")
	if err != nil {
		return nil, err
	}
	return out.(metav1.Object).GetManagedFields(), nil
}

func show(entries []metav1.ManagedFieldsEntry) string {
	var text strings.Builder
	for _, e := range entries {
		fmt.Fprintln(&text, e.Manager, e.Operation, e.APIVersion, e.FieldsType, e.Subresource, e.Time != nil, e.FieldsV1.GetRawString())
	}
	return text.String()
}

// randomObjects fills objects with a few elements in each list.
func randomObjects(seed int64) *randfill.Filler {
	return apifuzzer.FuzzerFor(metafuzzer.Funcs, rand.NewSource(seed), scheme.Codecs).NilChance(0.4).NumElements(0, 3).MaxDepth(30)
}

// plain replaces all strings in a value by short ones that need no escaping.
func plain(v reflect.Value, random *rand.Rand) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			plain(v.Elem(), random)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() && schema.Describe(v.Type()) == schema.Composite {
				plain(v.Field(i), random)
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			plain(v.Index(i), random)
		}
	case reflect.Map:
		old := v.MapRange()
		if !v.IsNil() {
			v.Set(reflect.MakeMap(v.Type()))
		}
		for old.Next() {
			key, element := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			plain(key, random)
			element.Set(old.Value())
			plain(element, random)
			v.SetMapIndex(key, element)
		}
	case reflect.String:
		if v.Len() > 0 || random.Intn(2) == 0 {
			v.SetString(strconv.Itoa(random.Intn(1e6)))
		}
	}
}

// comparison pairs the updater of a kind with apimachinery's field manager.
type comparison struct {
	gvk     runtimeschema.GroupVersionKind
	updater Updater
	manager *upstream.FieldManager
}

// comparisons returns the comparisons of all stable kinds that support apply, with and without a reset status.
// ResourceClaim is missing, because it has a list with a nullable key.
func comparisons(t testing.TB) []comparison {
	t.Helper()
	return comparisonsOf(t, fieldpath.NewSet(), statusIsReset)
}

// partsAreReset are fields that the strategies of subresources reset, some of them below the top level.
var partsAreReset = fieldpath.NewSet(fieldpath.MakePathOrDie("spec"), fieldpath.MakePathOrDie("metadata", "deletionTimestamp"),
	fieldpath.MakePathOrDie("metadata", "ownerReferences"), fieldpath.MakePathOrDie("status", "conditions"))

// comparisonsOf returns the comparisons with each of the sets of fields that are reset.
func comparisonsOf(t testing.TB, resets ...*fieldpath.Set) []comparison {
	t.Helper()
	var all []comparison
	applicable := applyconfigurations.NewTypeConverter(scheme.Scheme)
	kinds := scheme.Scheme.AllKnownTypes()
	for _, gvk := range slices.SortedFunc(maps.Keys(kinds), func(a, b runtimeschema.GroupVersionKind) int {
		return strings.Compare(a.String(), b.String())
	}) {
		if _, ok := kinds[gvk].FieldByName("ObjectMeta"); !ok || strings.ContainsAny(gvk.Version, "ab") || gvk.Kind == "ResourceClaim" {
			continue
		}
		if _, err := applicable.ObjectToTyped(newObject(t, gvk)); err != nil {
			continue
		}
		for _, reset := range resets {
			all = append(all, comparison{gvk, ForType(kinds[gvk], gvk.GroupVersion().String(), reset), fieldManagerOf(t, gvk, reset)})
		}
	}
	if len(all) < 50*len(resets) {
		t.Fatalf("only %d kinds found", len(all)/len(resets))
	}
	return all
}

func newObject(t testing.TB, gvk runtimeschema.GroupVersionKind) runtime.Object {
	t.Helper()
	obj, err := scheme.Scheme.New(gvk)
	if err != nil {
		t.Fatal(err)
	}
	obj.GetObjectKind().SetGroupVersionKind(gvk)
	return obj
}

// random compares a creation of a random object, and reports whether the updater supported it.
func (r comparison) random(t testing.TB, objects *randfill.Filler, words *rand.Rand) bool {
	t.Helper()
	obj := newObject(t, r.gvk)
	objects.Fill(obj)
	plain(reflect.ValueOf(obj), words)
	obj.(metav1.Object).SetManagedFields(nil)
	obj.GetObjectKind().SetGroupVersionKind(r.gvk)
	return agree(t, r.updater, r.manager, obj)
}

func TestManagedFieldsOfCreations(t *testing.T) {
	const rounds = 20
	objects, words := randomObjects(1), rand.New(rand.NewSource(2))
	for _, r := range comparisons(t) {
		done := 0
		for range rounds {
			if r.random(t, objects, words) {
				done++
			}
		}
		if done < rounds/5 {
			t.Errorf("%s: %d of %d creations supported", r.gvk, done, rounds)
		}
	}
}

func FuzzCreation(f *testing.F) {
	all := comparisons(f)
	f.Add(int64(1), uint(7))
	f.Fuzz(func(t *testing.T, seed int64, kind uint) {
		all[kind%uint(len(all))].random(t, randomObjects(seed), rand.New(rand.NewSource(seed)))
	})
}

var byTester = Write{Manager: "tester", Operation: metav1.ManagedFieldsOperationUpdate}

// agree compares the managed fields that both give to a new object, and reports whether the updater
// supported it.
func agree(t testing.TB, u Updater, m *upstream.FieldManager, obj runtime.Object) bool {
	t.Helper()
	mine := obj.DeepCopyObject().(metav1.Object)
	if !u.Update(nil, mine, byTester) {
		if !reflect.DeepEqual(mine, obj) {
			t.Errorf("changed an object that it does not support")
		}
		return false
	}
	theirs, err := createdUpstream(t, m, obj)
	if err != nil {
		return false // an element without a key, in a reset field
	}
	if got, want := show(mine.GetManagedFields()), show(theirs); got != want {
		t.Fatalf("got  %s\nwant %s", got, want)
	}
	return true
}

var podKind = corev1.SchemeGroupVersion.WithKind("Pod")

func simplePod() *corev1.Pod {
	return &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "default", Labels: map[string]string{"app": "a", "tier": "front"}},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{{
				Name: "c", Image: "nginx", ImagePullPolicy: corev1.PullAlways, TerminationMessagePath: "/dev/termination-log",
				Ports: []corev1.ContainerPort{{ContainerPort: 80, Protocol: corev1.ProtocolTCP}},
				Env:   []corev1.EnvVar{{Name: "A", Value: "1"}},
			}},
			RestartPolicy: corev1.RestartPolicyAlways, DNSPolicy: corev1.DNSClusterFirst, TerminationGracePeriodSeconds: new(int64(30)),
			SecurityContext: &corev1.PodSecurityContext{}, SchedulerName: "default-scheduler",
		},
	}
}

func TestUnusualObjects(t *testing.T) {
	c, m := ForType(reflect.TypeFor[corev1.Pod](), "v1", statusIsReset), fieldManagerOf(t, podKind, statusIsReset)
	for _, test := range []struct {
		name      string
		change    func(*corev1.Pod)
		supported bool
	}{
		{"plain", func(p *corev1.Pod) {}, true},
		{"empty", func(p *corev1.Pod) { *p = corev1.Pod{TypeMeta: p.TypeMeta} }, true},
		{"only a status", func(p *corev1.Pod) {
			*p = corev1.Pod{TypeMeta: p.TypeMeta, Status: corev1.PodStatus{Phase: corev1.PodRunning}}
		}, true},
		{"lists that are empty", func(p *corev1.Pod) {
			p.Spec.Containers = []corev1.Container{}
			p.Spec.Volumes = []corev1.Volume{}
		}, true},
		{"the same port with both protocols", func(p *corev1.Pod) {
			p.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 53, Protocol: "UDP"}, {ContainerPort: 53}}
		}, true},
		{"ports in order of numbers", func(p *corev1.Pod) {
			p.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 8080}, {ContainerPort: 90}, {ContainerPort: -1}}
		}, true},
		{"finalizers and owners", func(p *corev1.Pod) {
			p.Finalizers = []string{"b/c", "a/b"}
			p.OwnerReferences = []metav1.OwnerReference{{UID: "2", Name: "x"}, {UID: "1"}}
		}, true},
		{"a manager's fields", func(p *corev1.Pod) { p.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "me"}} }, false},
		{"managed fields reset", func(p *corev1.Pod) { p.ManagedFields = []metav1.ManagedFieldsEntry{} }, false},
		{"a name twice", func(p *corev1.Pod) { p.Spec.Containers = append(p.Spec.Containers, p.Spec.Containers[0]) }, false},
		{"a finalizer twice", func(p *corev1.Pod) { p.Finalizers = []string{"a/b", "a/b"} }, false},
		{"a label that is not ASCII", func(p *corev1.Pod) { p.Labels["é"] = "" }, false},
		{"a label with a quote", func(p *corev1.Pod) { p.Labels[`"`] = "" }, false},
		{"a container with HTML in its name", func(p *corev1.Pod) { p.Spec.Containers[0].Name = "<a>" }, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := simplePod()
			test.change(p)
			if agree(t, c, m, p) != test.supported {
				t.Errorf("supported: %v", !test.supported)
			}
		})
	}
}

func TestWritesLeftToTheFieldManager(t *testing.T) {
	u := ForType(reflect.TypeFor[corev1.Pod](), "v1", nil)
	for name, leaves := range map[string]bool{
		"another kind": !u.Update(nil, &corev1.ConfigMap{}, byTester),
		"an update of an object without managers": !u.Update(simplePod(), simplePod(), byTester),
		"an apply":   !u.Update(nil, simplePod(), Write{Manager: "tester", Operation: metav1.ManagedFieldsOperationApply}),
		"no manager": !u.Update(nil, simplePod(), Write{Operation: metav1.ManagedFieldsOperationUpdate}),
		"a part of a field is reset": !ForType(reflect.TypeFor[corev1.Pod](), "v1",
			fieldpath.NewSet(fieldpath.MakePathOrDie("spec", "nodeName"))).Update(nil, simplePod(), byTester),
	} {
		if !leaves {
			t.Errorf("%s: not left to the field manager", name)
		}
	}
}

// TestCreateThroughSubresource compares the managed fields of a Binding with apimachinery's field manager.
func TestCreateThroughSubresource(t *testing.T) {
	gvk := corev1.SchemeGroupVersion.WithKind("Binding")
	binding := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: "x", Annotations: map[string]string{"a": "b"}},
		Target: corev1.ObjectReference{Kind: "Node", Name: "n"}}
	binding.SetGroupVersionKind(gvk)
	m, err := upstream.NewDefaultFieldManager(schema.TypeConverter(scheme.Scheme), runtime.UnsafeObjectConvertor(scheme.Scheme),
		scheme.Scheme, scheme.Scheme, gvk, gvk.GroupVersion(), "binding", nil)
	if err != nil {
		t.Fatal(err)
	}
	want, err := createdUpstream(t, m, binding)
	if err != nil {
		t.Fatal(err)
	}
	w := Write{Manager: "tester", Operation: metav1.ManagedFieldsOperationUpdate, Subresource: "binding"}
	if !ForType(reflect.TypeFor[corev1.Binding](), "v1", nil).Update(nil, binding, w) {
		t.Fatal("left to the field manager")
	}
	if got := show(binding.GetManagedFields()); got != show(want) || got == "" {
		t.Errorf("got %s, want %s", got, show(want))
	}
}
