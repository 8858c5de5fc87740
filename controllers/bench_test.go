package controllers_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	"flyball.dev/controllers"
	"flyball.dev/controllers/internal/jobstate"
	"flyball.dev/controlplane"
	"flyball.dev/controlplane/controllerstest"
	"flyball.dev/ctrl/client"
)

// BenchmarkDeployment measures, in real time, a Deployment: until all its pods are available, and
// from its deletion until all are deleted.
func BenchmarkDeployment(b *testing.B) {
	for _, n := range []int32{10, 100, 1000, 2000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) { benchmarkDeployment(b, n) })
	}
}

// benchmarkDeployment measures the rollout and the deletion of a Deployment.
func benchmarkDeployment(b *testing.B, n int32) {
	c := startPlane(b, controllers.Options{})
	var up, down time.Duration
	for b.Loop() {
		start := time.Now()
		deployments := follow(b, c, &appsv1.DeploymentList{})
		pods := follow(b, c, &corev1.PodList{})
		d := controllerstest.Deployment(n, "a")
		if err := c.Create(b.Context(), d); err != nil {
			b.Fatal(err)
		}
		for event := range deployments.ResultChan() {
			if event.Object.(*appsv1.Deployment).Status.AvailableReplicas == n {
				break
			}
		}
		up += time.Since(start)
		deployments.Stop()

		start = time.Now()
		if err := c.Delete(b.Context(), d, client.PropagationPolicy(metav1.DeletePropagationBackground)); err != nil {
			b.Fatal(err)
		}
		gone := int32(0)
		for event := range pods.ResultChan() {
			if event.Type == watch.Deleted {
				gone++
			}
			if gone == n {
				break
			}
		}
		down += time.Since(start)
		pods.Stop()
	}
	b.ReportMetric(up.Seconds()*1000/float64(b.N), "ms-up")
	b.ReportMetric(down.Seconds()*1000/float64(b.N), "ms-down")
}

// BenchmarkJob measures, in real time, an indexed Job of 1,000 pods, from its creation until it is complete:
//
//	go test ./controllers -run - -bench Job -benchtime 1x -count 3
func BenchmarkJob(b *testing.B) {
	c := startPlane(b, controllers.Options{})
	jobs := follow(b, c, &batchv1.JobList{})
	defer jobs.Stop()
	for i := 0; b.Loop(); i++ {
		job := controllerstest.Job(1000, nil, controllerstest.OfIndexes)
		job.Name = fmt.Sprint("job-", i)
		if err := c.Create(b.Context(), job); err != nil {
			b.Fatal(err)
		}
		for event := range jobs.ResultChan() {
			if j := event.Object.(*batchv1.Job); j.Name == job.Name && jobstate.Finished(j) != nil {
				break
			}
		}
	}
	b.ReportMetric(b.Elapsed().Seconds()*1000/float64(b.N), "ms-complete")
}

// startPlane starts a control plane until the end of the benchmark, and returns a client for it.
func startPlane(b *testing.B, o controllers.Options) client.WithWatch {
	plane, err := controlplane.Start(b.Context(), controlplane.Options{Controllers: o})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = plane.Stop() })
	c, err := client.NewWithWatch(plane.Config(), client.Options{Scheme: clientgoscheme.Scheme})
	if err != nil {
		b.Fatal(err)
	}
	return c
}

func follow(b *testing.B, c client.WithWatch, list client.ObjectList) watch.Interface {
	w, err := c.Watch(b.Context(), list, client.InNamespace("default"))
	if err != nil {
		b.Fatal(err)
	}
	return w
}

// BenchmarkPods measures, in real time, pods that 8 writers create, until all of them run.
func BenchmarkPods(b *testing.B) {
	b.Run("events", func(b *testing.B) { benchmarkPods(b, controllers.Options{}) })
	b.Run("no events", func(b *testing.B) { benchmarkPods(b, controllers.Options{WithoutEvents: true}) })
}

// benchmarkPods measures the creation of pods until they are ready.
func benchmarkPods(b *testing.B, o controllers.Options) {
	c := startPlane(b, o)
	pods := follow(b, c, &corev1.PodList{})
	defer pods.Stop()
	// The informers and the first connections, which the first pod needs, are not measured.
	if err := c.Create(b.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "first"},
		Spec: controllerstest.Template("nginx:1.29").Spec}); err != nil {
		b.Fatal(err)
	}
	for event := range pods.ResultChan() {
		if event.Object.(*corev1.Pod).Status.Phase == corev1.PodRunning {
			break
		}
	}
	var next atomic.Int64
	var writers sync.WaitGroup
	b.ReportAllocs()
	b.ResetTimer()
	for range 8 {
		writers.Go(func() {
			for n := next.Add(1); n <= int64(b.N); n = next.Add(1) {
				pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint("p", n)}, Spec: controllerstest.Template("nginx:1.29").Spec}
				if err := c.Create(b.Context(), pod); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	up := map[string]bool{}
	for event := range pods.ResultChan() {
		if pod := event.Object.(*corev1.Pod); event.Type == watch.Modified && pod.Name != "first" &&
			pod.Status.Phase == corev1.PodRunning {
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
