package scheduler_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"flyball.dev/controllers"
	"flyball.dev/controllers/scheduler"
	"flyball.dev/controlplane"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/manager"
	"flyball.dev/ctrl/metrics/server"
)

// BenchmarkScheduler binds 10,000 pods to 500 nodes in 5 zones, from the start of the scheduler to the last binding:
//
//	go test ./controllers/scheduler -run - -bench Scheduler -benchtime 1x
func BenchmarkScheduler(b *testing.B) {
	const nodes, pods = 500, 10_000
	for range b.N {
		b.StopTimer()
		plane, err := controlplane.Start(b.Context(), controlplane.Options{Controllers: controllers.Options{Without: controllers.Names()}})
		must(b, err)
		c, err := client.NewWithWatch(plane.Config(), client.Options{})
		must(b, err)
		each(b, nodes, func(i int) error { return c.Create(b.Context(), benchNode(i)) })
		each(b, pods, func(i int) error { return c.Create(b.Context(), benchPod(i)) })
		unbound, err := c.Watch(b.Context(), &corev1.PodList{}, client.MatchingFieldsSelector{Selector: fields.OneTermEqualSelector("spec.nodeName", "")})
		must(b, err)
		mgr, err := manager.New(plane.Config(), manager.Options{Metrics: server.Options{BindAddress: "0"}})
		must(b, err)
		must(b, scheduler.AddToManager(mgr))
		stopped := make(chan error, 1)
		ctx, cancel := context.WithCancel(b.Context())
		b.StartTimer()
		begin := time.Now()
		go func() { stopped <- mgr.Start(ctx) }()
		for left := pods; left > 0; {
			e, ok := <-unbound.ResultChan()
			if !ok {
				b.Fatalf("the watch has ended, and %d pods are unbound", left)
			}
			if e.Type == "DELETED" {
				left--
			}
		}
		b.ReportMetric(pods/time.Since(begin).Seconds(), "pods/s")
		b.StopTimer()
		unbound.Stop()
		cancel()
		must(b, <-stopped)
		plane.Stop()
	}
}

func must(b *testing.B, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// each calls a function n times, from eight goroutines.
func each(b *testing.B, n int, do func(i int) error) {
	var group sync.WaitGroup
	for w := range 8 {
		group.Go(func() {
			for i := w; i < n; i += 8 {
				if err := do(i); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
}

func benchNode(i int) *corev1.Node {
	name := fmt.Sprint("node-", i)
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name, corev1.LabelTopologyZone: fmt.Sprint("zone-", i%5)}},
		Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{"cpu": resource.MustParse("8"), "memory": resource.MustParse("32Gi"), "pods": resource.MustParse("110")},
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
	}
}

// benchPod returns a pod. One in ten is spread over zones, and one in ten prefers to be away from its like.
func benchPod(i int) *corev1.Pod {
	app := map[string]string{"app": fmt.Sprint("app-", i%50)}
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint("pod-", i), Labels: app},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "a", Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{"cpu": resource.MustParse("100m"), "memory": resource.MustParse("100Mi")}}}}}}
	switch selector := (&metav1.LabelSelector{MatchLabels: app}); i % 10 {
	case 0:
		p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{MaxSkew: 5, TopologyKey: corev1.LabelTopologyZone,
			WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: selector}}
	case 1:
		p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{
			{Weight: 10, PodAffinityTerm: corev1.PodAffinityTerm{TopologyKey: corev1.LabelHostname, LabelSelector: selector}}}}}
	}
	return p
}
