package schema

import (
	"fmt"
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
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/randfill"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

var statusIsReset = fieldpath.NewSet(fieldpath.MakePathOrDie("status"))

// general is upstream's field manager for creations of a kind.
func general(t testing.TB, gvk schema.GroupVersionKind, reset *fieldpath.Set) *managedfields.FieldManager {
	t.Helper()
	m, err := managedfields.NewDefaultFieldManager(TypeConverter(scheme.Scheme), runtime.UnsafeObjectConvertor(scheme.Scheme),
		scheme.Scheme, scheme.Scheme, gvk, gvk.GroupVersion(), "",
		fieldpath.NewExcludeFilterSetMap(map[fieldpath.APIVersion]*fieldpath.Set{fieldpath.APIVersion(gvk.GroupVersion().String()): reset}))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// owned creates a copy of the object under upstream's field manager and tells what it says.
func owned(t testing.TB, m *managedfields.FieldManager, obj runtime.Object) ([]metav1.ManagedFieldsEntry, error) {
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
		fmt.Fprintln(&text, e.Manager, e.Operation, e.APIVersion, e.FieldsType, e.Subresource, e.Time != nil, string(e.FieldsV1.Raw))
	}
	return text.String()
}

// randomObjects fills objects with a few elements in each list.
func randomObjects(seed int64) *randfill.Filler {
	return apifuzzer.FuzzerFor(metafuzzer.Funcs, rand.NewSource(seed), scheme.Codecs).NilChance(0.4).NumElements(0, 3).MaxDepth(30)
}

// plain puts short plain words for all strings in a value.
func plain(v reflect.Value, random *rand.Rand) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			plain(v.Elem(), random)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() && !selfDescribed(v.Type()) {
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

// rival is a kind's creation, and upstream's field manager to compare it with.
type rival struct {
	gvk      schema.GroupVersionKind
	creation *Creation
	general  *managedfields.FieldManager
}

// rivals are all kinds that can be applied, each with its status reset and without. The one that is
// missing has a list whose elements are told apart by what may be null.
func rivals(t testing.TB) []rival {
	var all []rival
	for _, gvk := range sortedKinds() {
		kind := stableKinds()[gvk]
		if slices.ContainsFunc(neverApplied, func(p string) bool { return strings.HasPrefix(Of(kind).Name, p) }) {
			continue
		}
		for _, reset := range []*fieldpath.Set{fieldpath.NewSet(), statusIsReset} {
			if gvk.Kind != "ResourceClaim" {
				all = append(all, rival{gvk, NewCreation(kind, reset), general(t, gvk, reset)})
			}
		}
	}
	return all
}

// random creates a random object under both, and tells whether ours did it.
func (r rival) random(t testing.TB, objects *randfill.Filler, words *rand.Rand) bool {
	t.Helper()
	obj := newObject(t, r.gvk)
	objects.Fill(obj)
	plain(reflect.ValueOf(obj), words)
	obj.(metav1.Object).SetManagedFields(nil)
	obj.GetObjectKind().SetGroupVersionKind(r.gvk)
	return agree(t, r.creation, r.general, obj)
}

func TestCreationsAgree(t *testing.T) {
	const rounds = 20
	objects, words := randomObjects(1), rand.New(rand.NewSource(2))
	for _, r := range rivals(t) {
		done := 0
		for range rounds {
			if r.random(t, objects, words) {
				done++
			}
		}
		if done < rounds/5 {
			t.Errorf("%s: %d of %d done by us", r.gvk, done, rounds)
		}
	}
}

func FuzzCreation(f *testing.F) {
	all := rivals(f)
	f.Add(int64(1), uint(7))
	f.Fuzz(func(t *testing.T, seed int64, kind uint) {
		all[kind%uint(len(all))].random(t, randomObjects(seed), rand.New(rand.NewSource(seed)))
	})
}

// agree compares what both say, and tells whether ours said anything.
func agree(t testing.TB, c *Creation, m *managedfields.FieldManager, obj runtime.Object) bool {
	t.Helper()
	mine := obj.DeepCopyObject().(metav1.Object)
	if !c.Own(mine, obj.GetObjectKind().GroupVersionKind().GroupVersion().String(), "tester") {
		if !reflect.DeepEqual(mine, obj) {
			t.Errorf("changed what it gave up on")
		}
		return false
	}
	theirs, err := owned(t, m, obj)
	if err != nil {
		return false // an element without a key, in what is reset
	}
	if got, want := show(mine.GetManagedFields()), show(theirs); got != want {
		t.Fatalf("got  %s\nwant %s", got, want)
	}
	return true
}

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

func TestUnusualCreations(t *testing.T) {
	pod := schema.GroupVersionKind{Version: "v1", Kind: "Pod"}
	c, m := NewCreation(reflect.TypeFor[corev1.Pod](), statusIsReset), general(t, pod, statusIsReset)
	for _, test := range []struct {
		name   string
		change func(*corev1.Pod)
		ours   bool
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
		{"a label of many letters", func(p *corev1.Pod) { p.Labels["é"] = "" }, false},
		{"a label with a quote", func(p *corev1.Pod) { p.Labels[`"`] = "" }, false},
		{"a container of markup", func(p *corev1.Pod) { p.Spec.Containers[0].Name = "<a>" }, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := simplePod()
			test.change(p)
			if agree(t, c, m, p) != test.ours {
				t.Errorf("done by us: %v", !test.ours)
			}
		})
	}
}

func TestCreationsOfOthers(t *testing.T) {
	c := NewCreation(reflect.TypeFor[corev1.Pod](), nil)
	if c.Own(&corev1.ConfigMap{}, "v1", "tester") {
		t.Error("owns an object of another kind")
	}
	deep := fieldpath.NewSet(fieldpath.MakePathOrDie("spec", "nodeName"))
	if NewCreation(reflect.TypeFor[corev1.Pod](), deep).Own(&corev1.Pod{}, "v1", "tester") {
		t.Error("claims to reset parts of fields")
	}
}

func BenchmarkCreation(b *testing.B) {
	gvk := schema.GroupVersionKind{Version: "v1", Kind: "Pod"}
	pod := simplePod()
	b.Run("ours", func(b *testing.B) {
		c := NewCreation(reflect.TypeFor[corev1.Pod](), statusIsReset)
		b.ReportAllocs()
		for b.Loop() {
			pod.ManagedFields = nil
			if !c.Own(pod, "v1", "tester") {
				b.Fatal("not done")
			}
		}
	})
	b.Run("upstream", func(b *testing.B) {
		m := general(b, gvk, statusIsReset)
		b.ReportAllocs()
		for b.Loop() {
			pod.ManagedFields = nil
			if _, err := m.Update(&corev1.Pod{}, pod, "tester"); err != nil {
				b.Fatal(err)
			}
		}
	})
}
