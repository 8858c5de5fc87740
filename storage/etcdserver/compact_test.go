package etcdserver_test

import (
	"context"
	"errors"
	"testing"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"flyball.dev/storage/etcdserver"
	"flyball.dev/storage/memory"
)

// failing is a store that cannot compact, and says when a compaction has begun.
type failing struct {
	*memory.Store
	begun, fail chan struct{}
}

func (s failing) Compact(context.Context, uint64) error {
	s.begun <- struct{}{}
	<-s.fail
	return errors.New("no")
}

// TestFailedCompaction requires that all revisions stay readable, during a compaction that fails and after it, and that the
// compaction can be tried again.
func TestFailedCompaction(t *testing.T) {
	store := failing{memory.New(memory.Options{}), make(chan struct{}), make(chan struct{})}
	s := serve(t, etcdserver.Options{Store: store})
	for range 9 {
		s.put(t, "k", "v")
	}
	read := func(revision int64) error {
		_, err := s.kv.Range(t.Context(), &etcdserverpb.RangeRequest{Key: []byte("k"), Revision: revision})
		return err
	}
	for range 2 {
		ended := make(chan error, 1)
		go func() {
			_, err := s.kv.Compact(t.Context(), &etcdserverpb.CompactionRequest{Revision: 8})
			ended <- err
		}()
		<-store.begun
		if err := read(5); err != nil {
			t.Errorf("during the compaction: %v", err)
		}
		store.fail <- struct{}{}
		if err := <-ended; err == nil || errors.Is(rpctypes.Error(err), rpctypes.ErrCompacted) {
			t.Errorf("Compact: %v", err)
		}
		if err := read(5); err != nil {
			t.Errorf("after the compaction: %v", err)
		}
	}
}

// TestConcurrentCompactions requires that one of many compactions at a revision succeeds.
func TestConcurrentCompactions(t *testing.T) {
	onStores(t, func(t *testing.T, s *served) {
		for range 9 {
			s.put(t, "k", "v")
		}
		for _, revision := range []int64{0, 1, 2, 5, 9, 10} {
			const n = 8
			ended := make(chan error, n)
			for range n {
				go func() {
					_, err := s.kv.Compact(t.Context(), &etcdserverpb.CompactionRequest{Revision: revision})
					ended <- err
				}()
			}
			succeeded := 0
			for range n {
				switch err := rpctypes.Error(<-ended); {
				case err == nil:
					succeeded++
				case !errors.Is(err, rpctypes.ErrCompacted):
					t.Error(err)
				}
			}
			if succeeded != 1 {
				t.Errorf("%d compactions at %d have succeeded", succeeded, revision)
			}
		}
	})
}
