package objectdiff

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestFields(t *testing.T) {
	deployment := func(change func(*appsv1.Deployment)) *appsv1.Deployment {
		d := &appsv1.Deployment{}
		d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "a", Image: "a:1"}, {Name: "b", Image: "b:1"}}
		d.ManagedFields = []metav1.ManagedFieldsEntry{
			{Manager: "scaler", FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:replicas":{}}}`)},
			{Manager: "labeler", FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:labels":{"f:app/name":{}}}}`)},
			{Manager: "operator", FieldsV1: metav1.NewFieldsV1(
				`{"f:spec":{"f:template":{"f:spec":{"f:containers":{"k:{\"name\":\"b\"}":{"f:image":{}}}}}}}`)},
			{Manager: "operator", Subresource: "status", FieldsV1: metav1.NewFieldsV1(`{"f:status":{"f:replicas":{}}}`)},
		}
		change(d)
		return d
	}
	before := deployment(func(*appsv1.Deployment) {})
	for want, change := range map[string]func(*appsv1.Deployment){
		"":                        func(d *appsv1.Deployment) { d.ResourceVersion = "2"; d.ManagedFields = d.ManagedFields[:1] },
		"spec.replicas by scaler": func(d *appsv1.Deployment) { d.Spec.Replicas = new(int32) },
		"spec.paused":             func(d *appsv1.Deployment) { d.Spec.Paused = true },
		"spec.template.spec.containers[1].image by operator": func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[1].Image = "b:2" },
		"spec.template.spec.containers by operator":          func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers = d.Spec.Template.Spec.Containers[:1] },
		"metadata.labels by labeler":                         func(d *appsv1.Deployment) { d.Labels = map[string]string{"app/name": "x"} },
		"metadata.generation, status.replicas by operator":   func(d *appsv1.Deployment) { d.Generation++; d.Status.Replicas++ },
	} {
		if got := Fields(before, deployment(change)); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	labels := func(v string) *appsv1.Deployment {
		return deployment(func(d *appsv1.Deployment) { d.Labels = map[string]string{"app/name": v} })
	}
	if got, want := Fields(labels("secret"), labels("word")), "metadata.labels[app/name] by labeler"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	many := &corev1.ConfigMap{Data: map[string]string{}}
	for _, k := range "abcdefghijkl" {
		many.Data[string(k)] = "x"
	}
	if got, want := Fields(&corev1.ConfigMap{Data: map[string]string{"z": "z"}}, many),
		"data.a, data.b, data.c, data.d, data.e, data.f, data.g, data.h, ..."; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	for _, odd := range []any{nil, 1, (*corev1.Pod)(nil), "pod"} {
		if got := Fields(odd, odd); got != "" {
			t.Errorf("two %T differ in %q", odd, got)
		}
	}
}
