package memory_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"flyball.dev/storage"
	"flyball.dev/storage/memory"
)

// filled returns a store with n records of 1 KiB in 10 namespaces.
func filled(b *testing.B, n int) (*memory.Store, []string) {
	s := memory.New(memory.Options{})
	b.Cleanup(func() { s.Close() })
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf("/core/pods/ns-%d/pod-%06d", i%10, i)
		put(b, s, storage.Write{Key: keys[i], Value: make([]byte, 1024)})
	}
	return s, keys
}

func BenchmarkPut(b *testing.B) {
	for _, watchers := range []int{0, 1000} {
		b.Run(fmt.Sprintf("watchers=%d", watchers), func(b *testing.B) {
			s, keys := filled(b, 10_000)
			for range watchers { // of other resources
				w, err := s.Watch(context.Background(), "/core/configmaps/", 0)
				if err != nil {
					b.Fatal(err)
				}
				defer w.Close()
			}
			value := make([]byte, 1024)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				put(b, s, storage.Write{Key: keys[i*7919%len(keys)], Value: value, If: storage.Any})
			}
		})
	}
}

func BenchmarkGet(b *testing.B) {
	s, keys := filled(b, 10_000)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if _, err := s.Get(context.Background(), keys[i*7919%len(keys)]); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkRange(b *testing.B) {
	for name, q := range map[string]storage.Query{
		"all=10000":      {Path: "/core/pods/"},
		"namespace=1000": {Path: "/core/pods/ns-3/"},
		"page=500":       {Path: "/core/pods/", Limit: 500},
	} {
		b.Run(name, func(b *testing.B) {
			s, _ := filled(b, 10_000)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := s.Range(context.Background(), q); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkRangeBetweenWrites measures the cost of a snapshot: each range is followed by a write.
func BenchmarkRangeBetweenWrites(b *testing.B) {
	s, keys := filled(b, 10_000)
	value := make([]byte, 1024)
	for i := 0; b.Loop(); i++ {
		if _, err := s.Range(context.Background(), storage.Query{Path: "/core/pods/ns-3/", Limit: 10}); err != nil {
			b.Fatal(err)
		}
		put(b, s, storage.Write{Key: keys[i*7919%len(keys)], Value: value, If: storage.Any})
	}
}

// BenchmarkWatch has one writer and 100 watchers that all receive each event. The writer waits for
// them now and then, so that their events are not compacted.
func BenchmarkWatch(b *testing.B) {
	const watchers, burst = 100, 500
	s, keys := filled(b, 1000)
	var caughtUp, running sync.WaitGroup
	stop := make(chan struct{})
	for range watchers {
		w, err := s.Watch(context.Background(), "/core/pods/", 0)
		if err != nil {
			b.Fatal(err)
		}
		running.Go(func() {
			defer w.Close()
			for seen := 0; ; {
				events, _, err := w.Next()
				if err != nil {
					b.Error(err)
					return
				}
				if before := seen / burst; before < (seen+len(events))/burst {
					caughtUp.Done()
				}
				if seen += len(events); len(events) > 0 {
					continue
				}
				select {
				case <-w.Ready():
				case <-stop:
					return
				}
			}
		})
	}
	value := make([]byte, 1024)
	caughtUp.Add(watchers)
	for i := 1; b.Loop(); i++ {
		put(b, s, storage.Write{Key: keys[i%len(keys)], Value: value, If: storage.Any})
		if i%burst == 0 {
			caughtUp.Wait()
			caughtUp.Add(watchers)
		}
	}
	b.ReportMetric(float64(b.N*watchers)/b.Elapsed().Seconds(), "events/s")
	close(stop)
	running.Wait()
}
