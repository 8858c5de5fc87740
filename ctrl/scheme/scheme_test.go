package scheme_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"flyball.dev/ctrl/scheme"
)

func TestBuilder(t *testing.T) {
	first := schema.GroupVersion{Group: "first.example.com", Version: "v1"}
	second := schema.GroupVersion{Group: "second.example.com", Version: "v1"}
	b := (&scheme.Builder{GroupVersion: first}).Register(&corev1.Pod{}, &corev1.PodList{})
	b.RegisterAll((&scheme.Builder{GroupVersion: second}).Register(&corev1.Node{}))

	s, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	for _, gvk := range []schema.GroupVersionKind{first.WithKind("Pod"), first.WithKind("PodList"), second.WithKind("Node")} {
		if !s.Recognizes(gvk) {
			t.Errorf("%v is unknown", gvk)
		}
	}
	if s.Recognizes(first.WithKind("Node")) {
		t.Error("a type of another builder is in this one's group")
	}
	// The options of requests are known in each group.
	if _, err := s.New(second.WithKind("ListOptions")); err != nil {
		t.Error(err)
	}
	if kinds, _, err := s.ObjectKinds(&metav1.Status{}); err != nil || kinds[0].Group != "" {
		t.Errorf("status: %v, %v", kinds, err)
	}
}
