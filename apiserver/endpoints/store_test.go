package endpoints

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/endpoints/handlers/fieldmanager"
)

// toUnstructured returns an object as an unstructured one.
func toUnstructured(t *testing.T, obj runtime.Object) *unstructured.Unstructured {
	t.Helper()
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		t.Fatal(err)
	}
	return &unstructured.Unstructured{Object: content}
}

// TestKeepTimestamps compares keepTimestamps with IgnoreManagedFieldsTimestampsTransformer.
func TestKeepTimestamps(t *testing.T) {
	entry := func(manager string, at int64, fields string) metav1.ManagedFieldsEntry {
		e := metav1.ManagedFieldsEntry{Manager: manager, Operation: "Update", APIVersion: "v1", FieldsType: "FieldsV1"}
		if at > 0 {
			e.Time = &metav1.Time{Time: metav1.Unix(at, 0).Time}
		}
		if fields != "" {
			e.FieldsV1 = metav1.NewFieldsV1(fields)
		}
		return e
	}
	quantities := func(text string) corev1.ResourceList {
		return corev1.ResourceList{"cpu": resource.MustParse(text)}
	}
	old := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{"a": "b"},
			ManagedFields: []metav1.ManagedFieldsEntry{entry("a", 1, `{"f:a":{}}`), entry("b", 2, `{}`)}},
		Spec: corev1.PodSpec{Overhead: quantities("1")},
	}
	kept := 0
	for name, change := range map[string]func(*corev1.Pod){
		"nothing":           func(*corev1.Pod) {},
		"time":              func(p *corev1.Pod) { p.ManagedFields[0].Time = &metav1.Time{Time: metav1.Unix(5, 0).Time} },
		"no time":           func(p *corev1.Pod) { p.ManagedFields[0].Time = nil },
		"time and label":    func(p *corev1.Pod) { p.ManagedFields[1].Time, p.Labels["a"] = nil, "c" },
		"time and spec":     func(p *corev1.Pod) { p.ManagedFields[1].Time, p.Spec.NodeName = nil, "n" },
		"time and format":   func(p *corev1.Pod) { p.ManagedFields[1].Time, p.Spec.Overhead = nil, quantities("1000m") },
		"time and nil":      func(p *corev1.Pod) { p.ManagedFields[1].Time, p.Annotations = nil, map[string]string{} },
		"time and manager":  func(p *corev1.Pod) { p.ManagedFields[1] = entry("c", 9, `{}`) },
		"time and fields":   func(p *corev1.Pod) { p.ManagedFields[1] = entry("b", 9, `{"f:a":{}}`) },
		"time, no fields":   func(p *corev1.Pod) { p.ManagedFields[1] = entry("b", 9, "") },
		"time and scope":    func(p *corev1.Pod) { p.ManagedFields[1].Time, p.ManagedFields[1].Subresource = nil, "status" },
		"time, operation":   func(p *corev1.Pod) { p.ManagedFields[1].Time, p.ManagedFields[1].Operation = nil, "Apply" },
		"time, version":     func(p *corev1.Pod) { p.ManagedFields[1].Time, p.ManagedFields[1].APIVersion = nil, "v2" },
		"label":             func(p *corev1.Pod) { p.Labels["a"] = "c" },
		"fewer entries":     func(p *corev1.Pod) { p.ManagedFields = p.ManagedFields[:1] },
		"no entries":        func(p *corev1.Pod) { p.ManagedFields = nil },
		"version of object": func(p *corev1.Pod) { p.ManagedFields[1].Time, p.ResourceVersion = nil, "7" },
	} {
		t.Run(name, func(t *testing.T) {
			mine, theirs := old.DeepCopy(), old.DeepCopy()
			change(mine)
			change(theirs)
			want, err := fieldmanager.IgnoreManagedFieldsTimestampsTransformer(t.Context(), theirs, old.DeepCopy())
			if err != nil {
				t.Fatal(err)
			}
			dynamic := toUnstructured(t, mine)
			keepTimestamps(mine, old.DeepCopy())
			if diff := cmp.Diff(want, mine); diff != "" {
				t.Errorf("(-upstream +ours):\n%s", diff)
			}
			want, err = fieldmanager.IgnoreManagedFieldsTimestampsTransformer(t.Context(), dynamic.DeepCopy(), toUnstructured(t, old))
			if err != nil {
				t.Fatal(err)
			}
			keepTimestamps(dynamic, toUnstructured(t, old))
			if diff := cmp.Diff(want, dynamic); diff != "" {
				t.Errorf("unstructured (-upstream +ours):\n%s", diff)
			}
			if mine.ManagedFields != nil && cmp.Equal(mine.ManagedFields, old.ManagedFields) {
				kept++
			}
		})
	}
	if kept < 5 {
		t.Errorf("only %d have the old timestamps", kept)
	}
}
