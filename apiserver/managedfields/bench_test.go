package managedfields

import (
	"fmt"
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	upstream "k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"flyball.dev/apiserver/schema"
)

// BenchmarkCreate measures the managed fields of a new Pod, typed and unstructured, with the updaters and with
// apimachinery's field manager.
func BenchmarkCreate(b *testing.B) {
	pod, types := simplePod(), schema.TypeConverter(scheme.Scheme)
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(pod)
	if err != nil {
		b.Fatal(err)
	}
	custom, err := upstream.NewDefaultCRDFieldManager(types, oneVersion{scheme.Scheme}, scheme.Scheme, scheme.Scheme, podKind,
		podKind.GroupVersion(), "", fieldpath.NewExcludeFilterSetMap(map[fieldpath.APIVersion]*fieldpath.Set{"v1": statusIsReset}))
	if err != nil {
		b.Fatal(err)
	}
	u, empty := &unstructured.Unstructured{Object: content}, &unstructured.Unstructured{}
	empty.SetGroupVersionKind(podKind)

	benchmark(b, "type/updater", pod, updating(ForType(reflect.TypeFor[corev1.Pod](), "v1", statusIsReset)))
	benchmark(b, "type/field manager", pod, managing(fieldManagerOf(b, podKind, statusIsReset), &corev1.Pod{TypeMeta: pod.TypeMeta}))
	benchmark(b, "unstructured/updater", u, updating(ForUnstructured(types, podKind, statusIsReset)))
	benchmark(b, "unstructured/field manager", u, managing(custom, empty))
}

// benchmark measures create, which is to set the managed fields of a new object.
func benchmark[T metav1.Object](b *testing.B, name string, obj T, create func(metav1.Object) bool) {
	b.Run(name, func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			obj.SetManagedFields(nil)
			if !create(obj) {
				b.Fatal("no managed fields")
			}
		}
	})
}

func updating(u Updater) func(metav1.Object) bool {
	return func(obj metav1.Object) bool { return u.Update(nil, obj, byTester) }
}

func managing(m *upstream.FieldManager, empty runtime.Object) func(metav1.Object) bool {
	return func(obj metav1.Object) bool {
		_, err := m.Update(empty, obj.(runtime.Object), "tester")
		return err == nil
	}
}

// oneVersion is a convertor of objects that have one version.
type oneVersion struct{ *runtime.Scheme }

func (oneVersion) ConvertToVersion(in runtime.Object, _ runtime.GroupVersioner) (runtime.Object, error) {
	return in, nil
}

// BenchmarkUpdate measures the managed fields of an update of a Pod with three managers, with the updater and with
// apimachinery's field manager.
func BenchmarkUpdate(b *testing.B) {
	old := managedPod(b)
	for name, change := range map[string]func(*corev1.Pod){
		"annotation": func(p *corev1.Pod) { p.Annotations = map[string]string{"a": "b"} },
		"condition": func(p *corev1.Pod) {
			p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: "New", Status: corev1.ConditionTrue})
		},
	} {
		obj := old.DeepCopy()
		change(obj)
		updater, manager := ForType(reflect.TypeFor[corev1.Pod](), "v1", nil), fieldManagerOf(b, podKind, fieldpath.NewSet())
		benchmark(b, name+"/updater", obj, func(obj metav1.Object) bool { return updater.Update(old, obj, byTester) })
		benchmark(b, name+"/field manager", obj, func(obj metav1.Object) bool {
			_, err := manager.Update(old, obj.(runtime.Object), "tester")
			return err == nil
		})
	}
}

// BenchmarkApply measures an apply that changes one of many environment variables of a Pod, with the updaters and with
// apimachinery's field manager. The time per variable should not grow.
func BenchmarkApply(b *testing.B) {
	types := schema.TypeConverter(scheme.Scheme)
	updater, custom, manager := ForType(reflect.TypeFor[corev1.Pod](), "v1", nil), ForUnstructured(types, podKind, nil), fieldManagerOf(b, podKind, fieldpath.NewSet())
	for _, variables := range []int{10, 1000, 10_000} {
		live, config := appliedPod(b, variables)
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(live)
		if err != nil {
			b.Fatal(err)
		}
		for name, apply := range map[string]func() bool{
			"updater": func() bool { _, ok := updater.Apply(b.Context(), live, config, byApplier, true); return ok },
			"unstructured updater": func() bool {
				_, ok := custom.Apply(b.Context(), &unstructured.Unstructured{Object: content}, config, byApplier, true)
				return ok
			},
			"field manager": func() bool {
				_, err := manager.Apply(live.DeepCopy(), &unstructured.Unstructured{Object: config}, byApplier.Manager, true)
				return err == nil
			},
		} {
			b.Run(fmt.Sprintf("%d/%s", variables, name), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if !apply() {
						b.Fatal("not applied")
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(variables), "ns/variable")
			})
		}
	}
}

var byApplier = Write{Manager: "applier", Operation: metav1.ManagedFieldsOperationApply}

// appliedPod returns a Pod with environment variables that byApplier has applied, and the configuration with
// another value for the first variable.
func appliedPod(t testing.TB, variables int) (live *corev1.Pod, config map[string]any) {
	t.Helper()
	pod := simplePod()
	env := make([]any, variables)
	for i := range env {
		env[i] = map[string]any{"name": fmt.Sprint("V", i), "value": fmt.Sprint(i)}
	}
	config = map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": pod.Name, "namespace": pod.Namespace},
		"spec": map[string]any{"containers": []any{map[string]any{"name": pod.Spec.Containers[0].Name, "env": env}}}}
	pod.UID = "1"
	stored, err := fieldManagerOf(t, podKind, fieldpath.NewSet()).Apply(pod, &unstructured.Unstructured{Object: runtime.DeepCopyJSON(config)}, byApplier.Manager, true)
	if err != nil {
		t.Fatal(err)
	}
	env[0].(map[string]any)["value"] = "changed"
	return stored.(*corev1.Pod), config
}
