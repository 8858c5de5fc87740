package framework

import (
	"testing"
	"unsafe"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
)

// TestLabelSet: a set of labels answers as the map does.
func TestLabelSet(t *testing.T) {
	for _, set := range []labels.Set{
		nil,
		{"app": "web"},
		{"app": "", "app.kubernetes.io/name": "web", "tier": "front"},
		{"a": "b", "b": "a"},
	} {
		l := newLabelSet(set)
		if l.empty() != (len(set) == 0) {
			t.Errorf("%v: empty is %v", set, l.empty())
		}
		for _, key := range []string{"", "app", "app.kubernetes.io/name", "name", "a", "b", "tier", "web", "front"} {
			value, ok := l.Lookup(key)
			if wanted, exists := set[key]; value != wanted || ok != exists || l.Get(key) != wanted || l.Has(key) != exists {
				t.Errorf("%v: %q is %q, %v", set, key, value, ok)
			}
		}
		if other := newLabelSet(labels.Merge(set, nil)); other != l {
			t.Errorf("%v: two sets with the same labels differ", set)
		}
	}
}

// TestPodIsSmall: pods that need the same share it, as long as there are any.
func TestPodIsSmall(t *testing.T) {
	if size := unsafe.Sizeof(Pod{}); size > 96 {
		t.Errorf("a pod takes %d bytes", size)
	}
	s := NewSnapshot()
	pod := func(name, cpu string, port int32) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("of " + name)}, Spec: corev1.PodSpec{NodeName: "n", Containers: []corev1.Container{{
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}}}}}}
		if port != 0 {
			p.Spec.Containers[0].Ports = []corev1.ContainerPort{{HostPort: port}}
		}
		return p
	}
	pods := []*corev1.Pod{pod("a", "1", 0), pod("b", "1", 0), pod("c", "2", 0), pod("d", "1", 80)}
	for range 2 { // an update changes nothing
		for _, p := range pods {
			s.SetPod(p)
		}
	}
	needsOf := func(i int) *needs {
		p, _ := s.Pod(pods[i].UID)
		return p.needs
	}
	if needsOf(0) != needsOf(1) || needsOf(0) == needsOf(2) || needsOf(0) == needsOf(3) || len(s.needs) != 2 {
		t.Errorf("the shared needs are %v", s.needs)
	}
	for _, p := range pods {
		s.RemovePod(p.UID)
	}
	if len(s.needs) != 0 {
		t.Errorf("without pods, there are the needs %v", s.needs)
	}
}
