package etcd

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"

	"flyball.dev/controlplane"
	"flyball.dev/ctrl/client"
	"flyball.dev/storage"
	"flyball.dev/storage/etcd"
)

// BenchmarkCreate creates records of 3,000 bytes with eight writers: with the plain client of etcd, and with a store, which
// also waits until the record has arrived in memory.
func BenchmarkCreate(b *testing.B) {
	c := startCluster(b, 1)
	plain, err := clientv3.New(clientv3.Config{Endpoints: c.endpoints(), Logger: zap.NewNop()})
	if err != nil {
		b.Fatal(err)
	}
	defer plain.Close()
	s := open(b, c, etcd.Options{})
	defer s.Close()
	value := make([]byte, 3000)
	var n atomic.Int64
	for name, create := range map[string]func(ctx context.Context, key string) error{
		"client": func(ctx context.Context, key string) error {
			_, err := plain.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(key), "=", 0)).Then(clientv3.OpPut(key, string(value))).Commit()
			return err
		},
		"store": func(ctx context.Context, key string) error {
			_, err := s.Put(ctx, storage.Write{Key: key, Value: value, If: storage.Absent})
			return err
		},
	} {
		b.Run(name, func(b *testing.B) {
			b.SetParallelism(4) // of two processors
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if err := create(b.Context(), fmt.Sprintf("/registry/pods/%d", n.Add(1))); err != nil {
						b.Error(err)
					}
				}
			})
		})
	}
}

// BenchmarkOtherServer is the time from a write at one server to its event at a watcher of another one.
func BenchmarkOtherServer(b *testing.B) {
	c := startCluster(b, 1)
	one, two := open(b, c, etcd.Options{}), open(b, c, etcd.Options{})
	defer one.Close()
	defer two.Close()
	w, err := two.Watch(b.Context(), "/registry/", 0)
	if err != nil {
		b.Fatal(err)
	}
	defer w.Close()
	var times []time.Duration
	for b.Loop() {
		start := time.Now()
		if _, err := one.Put(b.Context(), storage.Write{Key: "/registry/a", If: storage.Any}); err != nil {
			b.Fatal(err)
		}
		for {
			events, _, err := w.Next()
			if err != nil {
				b.Fatal(err)
			}
			if len(events) > 0 {
				break
			}
			<-w.Ready()
		}
		times = append(times, time.Since(start))
	}
	slices.Sort(times)
	b.ReportMetric(float64(times[len(times)*99/100].Microseconds()), "p99-µs")
}

// BenchmarkGet reads an object from a control plane over HTTPS, with etcd and with the storage in memory.
func BenchmarkGet(b *testing.B) {
	c := startCluster(b, 1)
	alone := func(o *controlplane.Options) { o.WithoutControllers = true }
	inMemory := func(o *controlplane.Options) {
		o.Storage.Close()
		o.Storage, o.Shared = nil, false
	}
	for name, plane := range map[string]*controlplane.ControlPlane{
		"etcd":   startPlane(b, c, "203.0.113.1", alone),
		"memory": startPlane(b, c, "203.0.113.1", alone, inMemory),
	} {
		b.Run(name, func(b *testing.B) {
			reader := clientFor(b, configOf(b, plane))
			b.SetParallelism(4)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if err := reader.Get(b.Context(), client.ObjectKey{Name: "default"}, &corev1.Namespace{}); err != nil {
						b.Error(err)
					}
				}
			})
		})
	}
}
