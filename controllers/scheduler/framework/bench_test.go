package framework

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
)

// benchSnapshot returns a snapshot of pods with the labels of many applications, on 100 nodes.
func benchSnapshot(b *testing.B, pods, apps int) *Snapshot {
	s := NewSnapshot()
	for i := range 100 {
		s.SetNode(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("n", i)}})
	}
	for i := range pods {
		s.SetPod(benchPod(fmt.Sprint("p", i), i%apps, fmt.Sprint("n", i%100)))
	}
	b.ReportAllocs()
	b.ResetTimer()
	return s
}

func benchPod(name string, app int, node string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name), Labels: map[string]string{"app": fmt.Sprint("app", app)}},
		Spec: corev1.PodSpec{NodeName: node}}
}

// BenchmarkCounts measures a pod that comes, is counted by the selector of its application, is placed and goes. The time is the same for
// any number of pods and of applications.
func BenchmarkCounts(b *testing.B) {
	for _, size := range []struct{ pods, apps int }{{1_000, 100}, {10_000, 100}, {10_000, 1_000}, {20_000, 10_000}} {
		b.Run(fmt.Sprintf("pods=%d/apps=%d", size.pods, size.apps), func(b *testing.B) {
			s := benchSnapshot(b, size.pods, size.apps)
			for i := range b.N {
				app := i % size.apps
				s.countSelected("default", labels.SelectorFromSet(labels.Set{"app": fmt.Sprint("app", app)}))
				s.SetPod(benchPod("new", app, "n7"))
				s.RemovePod("new")
			}
		})
	}
}

// BenchmarkNominations measures an attempt to schedule a pod that no nominated pod concerns.
func BenchmarkNominations(b *testing.B) {
	for _, nominated := range []int{0, 1_000, 10_000} {
		b.Run(fmt.Sprint(nominated), func(b *testing.B) {
			s := benchSnapshot(b, 1_000, 100)
			for i := range nominated {
				s.Nominate(benchPod(fmt.Sprint("nominated", i), 0, ""), "gone")
			}
			b.ResetTimer()
			for range b.N {
				s.Schedule(benchPod("new", 1, ""))
			}
		})
	}
}
