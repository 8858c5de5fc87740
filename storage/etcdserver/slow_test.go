package etcdserver_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"

	"flyball.dev/storage/etcdserver"
	"flyball.dev/storage/memory"
)

// TestSlowWatchers opens many watches of clients that do not read. Writers do not wait for them, and the server does not keep
// the events for them: a client that reads at last gets all events in order, or the compact revision.
func TestSlowWatchers(t *testing.T) {
	const watchers, writes, size = 40, 300, 32 << 10
	s := serve(t, etcdserver.Options{Store: memory.New(memory.Options{History: 1 << 20})})
	var streams []*stream
	for range watchers {
		w := s.watch(t)
		w.create(&etcdserverpb.WatchCreateRequest{Key: []byte("k"), PrevKv: true})
		streams = append(streams, w)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	value := []byte(strings.Repeat("v", size))
	var last int64
	for range writes {
		r, err := s.kv.Put(ctx, &etcdserverpb.PutRequest{Key: []byte("k"), Value: value})
		if err != nil {
			t.Fatalf("a write waits for the watchers: %v", err)
		}
		last = r.Header.Revision
	}
	compacted := 0
	for _, w := range streams {
		next := last - writes + 1
		for next <= last {
			r := w.receive()
			if r.Canceled {
				if r.CompactRevision <= next {
					t.Errorf("the compact revision is %d, and the next event has revision %d", r.CompactRevision, next)
				}
				compacted++
				break
			}
			for _, e := range r.Events {
				if e.Kv.ModRevision != next {
					t.Fatalf("an event has revision %d, want %d", e.Kv.ModRevision, next)
				}
				next++
			}
		}
	}
	if compacted == 0 {
		t.Error("the server has kept all events")
	}
}

// TestStopWithSlowWatchers stops a server while it sends to clients that do not read.
func TestStopWithSlowWatchers(t *testing.T) {
	s := serve(t, etcdserver.Options{Store: memory.New(memory.Options{})})
	for range 8 {
		s.watch(t).create(&etcdserverpb.WatchCreateRequest{Key: []byte("k"), ProgressNotify: true})
	}
	for range 20 {
		s.put(t, "k", strings.Repeat("v", 1<<20))
	}
	// The end of the test stops the server, and goleak looks for goroutines.
}

// TestPreviousAfterCompaction watches from the compact revision on. A pair from before is not there any more.
func TestPreviousAfterCompaction(t *testing.T) {
	onStores(t, func(t *testing.T, s *served) {
		var last int64
		for i := range 6 {
			last = s.put(t, "k", fmt.Sprint(i)) // 2 to 7
		}
		if _, err := s.kv.Compact(t.Context(), &etcdserverpb.CompactionRequest{Revision: 5}); err != nil {
			t.Fatal(err)
		}
		w := s.watch(t)
		w.create(&etcdserverpb.WatchCreateRequest{Key: []byte("k"), StartRevision: 5, PrevKv: true})
		want := []string{"put k=3 2 5 4, was none", "put k=4 2 6 5, was k=3 2 5 4", "put k=5 2 7 6, was k=4 2 6 5"}
		if got := w.events(int(last - 4)); !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
		w = s.watch(t)
		w.create(&etcdserverpb.WatchCreateRequest{Key: []byte("k"), StartRevision: 4, PrevKv: true})
		if r := w.receive(); !r.Canceled || r.CompactRevision != 5 {
			t.Errorf("a watch from a compacted revision: %v", r)
		}
	})
}
