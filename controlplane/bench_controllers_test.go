//go:build unix

package controlplane_test

import (
	"context"
	"runtime"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"flyball.dev/apiserver/store"
	"flyball.dev/controlplane"
	"flyball.dev/controlplane/controlplanetest"
	"flyball.dev/internal/protobuf"
	"flyball.dev/storage"
	"flyball.dev/storage/memory"
)

// BenchmarkCreatePodsWithControllers measures 8 writers of pods over HTTPS, client included: on a control plane without controllers until
// the last pod is created, and then on one with all controllers until the last pod runs.
//
//	go test ./controlplane -run - -bench CreatePodsWithControllers -benchtime 4000x -count 3
//
// "ratio" is the second rate in proportion to the first. "ms-behind" is the longest time from the creation of a pod until the pod
// runs, and "ms-last" the time from the last creation until the last pod runs. "cpu-µs/pod" and "alone-µs/pod" are the CPU time of this
// process for a pod with controllers and without. Allocations are the ones with controllers.
func BenchmarkCreatePodsWithControllers(b *testing.B) {
	alone := createAndStart(b, controlplane.Options{WithoutControllers: true})
	all := createAndStart(b, controlplane.Options{})
	perPod := func(d time.Duration) float64 { return float64(d.Microseconds()) / float64(b.N) }
	b.ReportMetric(float64(b.N)/alone.took.Seconds(), "alone/s")
	b.ReportMetric(float64(b.N)/all.took.Seconds(), "pods/s")
	b.ReportMetric(alone.took.Seconds()/all.took.Seconds(), "ratio")
	b.ReportMetric(float64(all.behind.Milliseconds()), "ms-behind")
	b.ReportMetric(float64(all.last.Milliseconds()), "ms-last")
	b.ReportMetric(perPod(alone.processor), "alone-µs/pod")
	b.ReportMetric(perPod(all.processor), "cpu-µs/pod")
}

// starting is how pods were created and started.
type starting struct {
	took      time.Duration // until the last one was created or, with controllers, runs
	processor time.Duration // in that time
	behind    time.Duration // the longest from the creation of a pod until the pod runs
	last      time.Duration // from the last creation until the last pod runs
}

// createAndStart creates b.N pods over HTTPS and, unless the control plane has no controllers, waits until all of them run.
func createAndStart(b *testing.B, o controlplane.Options) starting {
	stored := memory.New(memory.Options{})
	o.Listen, o.Storage = "127.0.0.1:0", stored
	plane, err := controlplane.Start(b.Context(), o)
	if err != nil {
		b.Fatal(err)
	}
	defer plane.Stop()
	pods := controlplanetest.ClientFor(b, overHTTPS(b, plane)).CoreV1().Pods("default")
	starts := followStarts(b, stored)
	runtime.GC() // the rest of another control plane
	b.ReportAllocs()
	b.ResetTimer()
	b.StartTimer()
	used := processorTime(b)
	byEight(b, func(n int) error {
		_, err := pods.Create(context.Background(), controlplanetest.ExamplePod(n), metav1.CreateOptions{})
		return err
	})
	created := time.Now()
	s := starting{}
	if !o.WithoutControllers && !b.Failed() {
		s.behind = <-starts
		s.last = time.Since(created)
	}
	b.StopTimer()
	s.took, s.processor = b.Elapsed(), processorTime(b)-used
	return s
}

// followStarts returns a channel that receives the longest time from the creation of a pod until the pod runs when b.N pods run. It reads
// the storage, because a client that follows pods takes a part of the processors.
func followStarts(b *testing.B, from storage.Store) <-chan time.Duration {
	w, err := from.Watch(b.Context(), store.Path(schema.GroupResource{Resource: "pods"}), 0)
	if err != nil {
		b.Fatal(err)
	}
	longest := make(chan time.Duration, 1)
	go func() {
		defer w.Close()
		created, behind := map[string]time.Time{}, time.Duration(0)
		for running := 0; running < b.N; {
			events, _, err := w.Next()
			if err != nil {
				return // the storage is closed
			}
			for _, e := range events {
				began, waits := created[e.Record.Key]
				switch {
				case e.Type == storage.Created:
					created[e.Record.Key] = time.Now()
				case waits && runs(e.Record.Value()):
					delete(created, e.Record.Key)
					behind, running = max(behind, time.Since(began)), running+1
				}
			}
			if len(events) == 0 {
				<-w.Ready()
			}
		}
		longest <- behind
	}()
	return longest
}

// runs reports whether a stored pod runs.
func runs(value []byte) bool {
	const raw, status, phase = 2, 3, 1 // the numbers of the fields
	pod := protobuf.First(value[len("k8s\x00"):], raw)
	return string(protobuf.First(protobuf.First(pod, status), phase)) == string(corev1.PodRunning)
}
