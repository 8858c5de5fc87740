package controllers_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	"flyball.dev/controlplane"
	"flyball.dev/ctrl/client"
)

// BenchmarkPods measures, in real time, pods that 8 writers create, until all of them run.
func BenchmarkPods(b *testing.B) {
	plane, err := controlplane.Start(b.Context(), controlplane.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer plane.Stop()
	c, err := client.NewWithWatch(plane.Config(), client.Options{Scheme: clientgoscheme.Scheme})
	if err != nil {
		b.Fatal(err)
	}
	pods := follow(b, c, &corev1.PodList{})
	defer pods.Stop()
	var next atomic.Int64
	var writers sync.WaitGroup
	b.ReportAllocs()
	b.ResetTimer()
	for range 8 {
		writers.Go(func() {
			for n := next.Add(1); n <= int64(b.N); n = next.Add(1) {
				pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint("p", n)}, Spec: template("nginx:1.29").Spec}
				if err := c.Create(b.Context(), pod); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	up := map[string]bool{}
	for event := range pods.ResultChan() {
		if pod := event.Object.(*corev1.Pod); event.Type == watch.Modified && pod.Status.Phase == corev1.PodRunning {
			up[pod.Name] = true
		}
		if len(up) == b.N {
			break
		}
	}
	writers.Wait()
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "pods/s")
}
