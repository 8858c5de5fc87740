package queue

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
)

// cycler is what the benchmarks need of a queue.
type cycler interface {
	Add(types.NamespacedName)
	Get() (types.NamespacedName, bool)
	Done(types.NamespacedName)
}

type plain struct{ *Queue[types.NamespacedName] }

func (p plain) Add(k types.NamespacedName)        { p.AddOne(0, 0, nil, k) }
func (p plain) Get() (types.NamespacedName, bool) { k, _, _, s := p.Queue.Get(); return k, s }

// contenders are this queue and client-go's, neither with metrics.
var contenders = []struct {
	name string
	new  func() (cycler, func())
}{
	{"flyball", func() (cycler, func()) {
		q := plain{New(Options[types.NamespacedName]{})}
		return q, q.ShutDown
	}},
	{"flyball+metrics", func() (cycler, func()) {
		q := plain{New(Options[types.NamespacedName]{Metrics: Metrics{Name: "bench"}})}
		return q, q.ShutDown
	}},
	{"client-go", func() (cycler, func()) {
		q := workqueue.NewTyped[types.NamespacedName]()
		return q, q.ShutDown
	}},
}

func keys(n int) []types.NamespacedName {
	ks := make([]types.NamespacedName, n)
	for i := range ks {
		ks[i] = types.NamespacedName{Namespace: "default", Name: fmt.Sprint("object-", i)}
	}
	return ks
}

// BenchmarkCycle adds a key, gets it and is done with it.
func BenchmarkCycle(b *testing.B) {
	for _, c := range contenders {
		b.Run(c.name, func(b *testing.B) {
			q, stop := c.new()
			defer stop()
			ks := keys(1000)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				q.Add(ks[i%len(ks)])
				k, _ := q.Get()
				q.Done(k)
			}
		})
	}
}

// BenchmarkBacklog adds 100,000 keys and then works them off.
func BenchmarkBacklog(b *testing.B) {
	ks := keys(100_000)
	for _, c := range contenders {
		b.Run(c.name, func(b *testing.B) {
			q, stop := c.new()
			defer stop()
			b.ReportAllocs()
			for b.Loop() {
				for _, k := range ks {
					q.Add(k)
				}
				for range ks {
					k, _ := q.Get()
					q.Done(k)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(ks)), "ns/key")
		})
	}
}

// BenchmarkDelayed adds 100,000 keys, each with its own delay and priority, and takes them as they
// come due.
func BenchmarkDelayed(b *testing.B) {
	ks := keys(100_000)
	b.ReportAllocs()
	for b.Loop() {
		c := newCore[types.NamespacedName](time.Second, nil)
		var t Item[types.NamespacedName]
		for i, k := range ks {
			c.add(0, k, time.Duration(i*7919%len(ks)), i%4, nil)
		}
		for now := range ks {
			if c.take(time.Duration(now), &t) {
				c.done(time.Duration(now), t.Key)
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(ks)), "ns/key")
}

// BenchmarkWorkers lets many workers take what one goroutine adds.
func BenchmarkWorkers(b *testing.B) {
	ks := keys(10_000)
	for _, workers := range []int{8, 64} {
		for _, c := range contenders {
			b.Run(fmt.Sprint(c.name, "/", workers), func(b *testing.B) {
				q, stop := c.new()
				var taken sync.WaitGroup
				var hands sync.WaitGroup
				for range workers {
					hands.Go(func() {
						for {
							k, shutdown := q.Get()
							if shutdown {
								return
							}
							q.Done(k)
							taken.Done()
						}
					})
				}
				b.ReportAllocs()
				for b.Loop() {
					taken.Add(len(ks))
					for _, k := range ks {
						q.Add(k)
					}
					taken.Wait()
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(ks)), "ns/key")
				stop()
				hands.Wait()
			})
		}
	}
}
