package objectdiff

import (
	"fmt"
	"slices"
	"strings"
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

func TestChanges(t *testing.T) {
	object := func(finalizers, conditions, containers string) *appsv1.Deployment {
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Finalizers: strings.Fields(finalizers)}}
		for _, c := range strings.Fields(conditions) {
			kind, reason, _ := strings.Cut(c, "=")
			d.Status.Conditions = append(d.Status.Conditions, appsv1.DeploymentCondition{Type: appsv1.DeploymentConditionType(kind), Reason: reason})
		}
		for _, name := range strings.Fields(containers) {
			d.Spec.Template.Spec.Containers = append(d.Spec.Template.Spec.Containers, corev1.Container{Name: name})
		}
		return d
	}
	for name, c := range map[string]struct {
		before, after *appsv1.Deployment
		want          []string
	}{
		"finalizers":      {object("a b", "", ""), object("c b", "", ""), []string{"metadata.finalizers[a]=<nil>", "metadata.finalizers[c]=c"}},
		"a condition":     {object("", "A=1 B=2", ""), object("", "B=2 A=3", ""), []string{"status.conditions[A].reason=3"}},
		"the order":       {object("", "", "a b"), object("", "", "b a"), []string{"spec.template.spec.containers=[map[name:b resources:map[]] map[name:a resources:map[]]]"}},
		"the same name":   {object("", "", "a a"), object("", "", "a b"), []string{"spec.template.spec.containers[1].name=b"}},
		"no longer there": {object("a", "A=1", "a"), object("", "", "a"), []string{"metadata.finalizers[a]=<nil>", "status.conditions[A]=<nil>"}},
	} {
		var got []string
		for _, change := range Changes(c.before, c.after) {
			got = append(got, fmt.Sprint(change.Path, "=", change.Value))
		}
		slices.Sort(got)
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

// embedded is an object with an embedded pointer in its status, which the converter of apimachinery
// cannot read if it is nil.
type embedded struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Status            struct {
		*Phase `json:",inline"`
		Ready  bool `json:"ready"`
	} `json:"status"`
	Refused refused `json:"refused,omitzero"`
}

type Phase struct {
	Phase string `json:"phase"`
}

// refused cannot be encoded.
type refused struct{ Set bool }

func (refused) MarshalJSON() ([]byte, error) { panic("refused") }

func TestEmbeddedPointers(t *testing.T) {
	before, after := &embedded{}, &embedded{}
	after.Status.Ready = true
	if got := Fields(before, after); got != "status.ready" {
		t.Errorf("got %q", got)
	}
	after.Status.Phase = &Phase{"Done"}
	if got := Fields(before, after); got != "status.phase, status.ready" {
		t.Errorf("got %q", got)
	}
	after.Refused.Set = true
	if got := Changes(before, after); len(got) > 0 {
		t.Errorf("got %v of an object that cannot be read", got)
	}
}
