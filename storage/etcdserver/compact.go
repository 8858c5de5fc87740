package etcdserver

import (
	"context"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"flyball.dev/storage"
)

// Compactor is a [Store] with the compact revision of an etcd cluster, which others compact too. For other stores, the server
// makes etcd's compact revision of the oldest revision of the store. The views of its transactions may have the method
// CompactRevision without arguments.
type Compactor interface {
	Store

	// CompactRevision returns the latest revision, and the compact revision at that time, at least [storage.First].
	CompactRevision(ctx context.Context) (latest, compacted uint64, err error)

	// CompactAt sets the compact revision.
	//
	// Possible errors: ErrCompacted, ErrFuture, ErrClosed.
	CompactAt(ctx context.Context, revision int64) error
}

// revisions returns the latest revision and etcd's compact revision, -1 before the first compaction: earlier revisions cannot
// be read, and a watch can begin at it.
func (s *Server) revisions(ctx context.Context) (latest, compacted int64, err error) {
	if c, ok := s.store.(Compactor); ok {
		latest, compacted, err := c.CompactRevision(ctx)
		return int64(latest), exactCompactRevision(compacted), err
	}
	last, oldest, err := s.store.Revisions(ctx)
	return int64(last), s.compactRevision(last, oldest), err
}

// revisionsOf returns the revisions of a view.
func (s *Server) revisionsOf(v storage.View) (latest, compacted int64) {
	last, oldest := v.Revisions()
	if c, ok := v.(interface{ CompactRevision() uint64 }); ok {
		return int64(last), exactCompactRevision(c.CompactRevision())
	}
	return int64(last), s.compactRevision(last, oldest)
}

func exactCompactRevision(compacted uint64) int64 {
	if compacted <= storage.First {
		return -1
	}
	return int64(compacted)
}

// compactRevision returns the compact revision for the revisions of a store. A store that can be read at its oldest revision
// can be watched from the next one.
func (s *Server) compactRevision(latest, oldest uint64) int64 {
	requested := s.requested()
	if oldest > storage.First {
		return max(requested, int64(min(oldest+1, latest)))
	}
	return requested
}

// requested returns the revision of the last compaction by this server, -1 before the first.
func (s *Server) requested() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.compacted
}

// Compact implements etcdserverpb.KVServer. One compaction follows the other, so that only one of two for the same revision
// succeeds. A compaction that fails leaves all revisions readable.
func (s *kv) Compact(ctx context.Context, r *etcdserverpb.CompactionRequest) (*etcdserverpb.CompactionResponse, error) {
	select {
	case s.compacting <- struct{}{}:
		defer func() { <-s.compacting }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	latest, compacted, err := s.revisions(ctx)
	if err != nil {
		return nil, rpcError(err)
	}
	if err := s.compact(ctx, r.Revision, latest, compacted); err != nil {
		return nil, rpcError(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.compacted = max(s.compacted, r.Revision)
	return &etcdserverpb.CompactionResponse{Header: s.header(latest)}, nil
}

// compact compacts the store. A watch can start at the compact revision of etcd, so a store that is no [Compactor] keeps one
// revision more.
func (s *kv) compact(ctx context.Context, revision, latest, compacted int64) error {
	if c, ok := s.store.(Compactor); ok {
		return c.CompactAt(ctx, revision)
	}
	switch {
	case revision <= compacted:
		return rpctypes.ErrGRPCCompacted
	case revision > latest:
		return rpctypes.ErrGRPCFutureRev
	case revision-1 <= int64(storage.First):
		return nil
	}
	return s.store.Compact(ctx, uint64(revision-1))
}
