package controlplane_test

import (
	"fmt"
	"runtime"
	"runtime/metrics"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"

	"flyball.dev/controlplane"
	"flyball.dev/controlplane/controlplanetest"
	"flyball.dev/internal/heaptest"
)

// prepared returns a control plane with two definitions and a number of ConfigMaps.
func prepared(b testing.TB, o controlplane.Options, n int) *controlplane.ControlPlane {
	b.Helper()
	plane, err := controlplane.Start(b.Context(), o)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := plane.Stop(); err != nil {
			b.Error(err)
		}
	})
	objects, err := dynamic.NewForConfig(plane.Config())
	if err != nil {
		b.Fatal(err)
	}
	for _, definition := range []string{gadgetDefinition, controlplanetest.Widgets} {
		if _, err := objects.Resource(definitions).Create(b.Context(), controlplanetest.Decode(b, definition), metav1.CreateOptions{}); err != nil {
			b.Fatal(err)
		}
	}
	maps := controlplanetest.ClientFor(b, plane.Config()).CoreV1().ConfigMaps("default")
	for i := range n {
		if _, err := maps.Create(b.Context(), controlplanetest.ConfigMap(name5(i)), metav1.CreateOptions{}); err != nil {
			b.Fatal(err)
		}
	}
	return plane
}

// BenchmarkForkFirstAnswer measures the time from Fork to the answer to the first request: a read and a write, of a
// built-in and a custom kind.
func BenchmarkForkFirstAnswer(b *testing.B) {
	for _, n := range []int{100, 10_000} {
		plane := prepared(b, controlplane.Options{}, n)
		for name, request := range map[string]func(*controlplane.ControlPlane) error{
			"get": func(f *controlplane.ControlPlane) error {
				_, err := controlplanetest.ClientFor(b, f.Config()).CoreV1().ConfigMaps("default").Get(b.Context(), name5(7), metav1.GetOptions{})
				return err
			},
			"create": func(f *controlplane.ControlPlane) error {
				_, err := controlplanetest.ClientFor(b, f.Config()).CoreV1().ConfigMaps("default").Create(b.Context(), controlplanetest.ConfigMap("new"), metav1.CreateOptions{})
				return err
			},
			"create custom": func(f *controlplane.ControlPlane) error {
				objects, err := dynamic.NewForConfig(f.Config())
				if err != nil {
					return err
				}
				_, err = objects.Resource(gadgets).Namespace("default").Create(b.Context(), controlplanetest.Decode(b,
					`{"apiVersion":"example.com/v1","kind":"Gadget","metadata":{"name":"a"}}`), metav1.CreateOptions{})
				return err
			},
		} {
			b.Run(fmt.Sprintf("%d/%s", n, name), func(b *testing.B) {
				var times []time.Duration // the median is less noisy than the mean
				for b.Loop() {
					start := time.Now()
					f, err := plane.Fork(b.Context(), controlplane.ForkOptions{})
					if err != nil {
						b.Fatal(err)
					}
					if err := request(f); err != nil {
						b.Fatal(err)
					}
					times = append(times, time.Since(start))
					if err := f.Stop(); err != nil {
						b.Fatal(err)
					}
				}
				slices.Sort(times)
				b.ReportMetric(float64(times[len(times)/2].Microseconds()), "median-µs")
				b.ReportMetric(float64(times[len(times)*99/100].Microseconds()), "p99-µs")
			})
		}
	}
}

// BenchmarkForks measures the memory of 1,000 forks in one process, each after a write.
func BenchmarkForks(b *testing.B) {
	plane := prepared(b, controlplane.Options{}, 10_000)
	for b.Loop() {
		var forks []*controlplane.ControlPlane
		before, goroutines := inUse(), runtime.NumGoroutine()
		for range 1000 {
			f, err := plane.Fork(b.Context(), controlplane.ForkOptions{})
			if err != nil {
				b.Fatal(err)
			}
			forks = append(forks, f)
			if _, err := controlplanetest.ClientFor(b, f.Config()).CoreV1().ConfigMaps("default").Create(b.Context(), controlplanetest.ConfigMap("new"), metav1.CreateOptions{}); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(inUse()-before)/float64(len(forks)), "bytes/fork")
		b.ReportMetric(float64(runtime.NumGoroutine()-goroutines)/float64(len(forks)), "goroutines/fork")
		for _, f := range forks {
			if err := f.Stop(); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// inUse returns the bytes of the reachable objects and of the stacks.
func inUse() int64 {
	live, stacks := heaptest.Live(), []metrics.Sample{{Name: "/memory/classes/heap/stacks:bytes"}}
	metrics.Read(stacks)
	return live + int64(stacks[0].Value.Uint64())
}
