package etcd

import (
	"context"
	"errors"

	clientv3 "go.etcd.io/etcd/client/v3"

	"flyball.dev/storage"
)

// ask asks the cluster for its revision and its compact revision. etcd has no request for the latter, but it refuses reads at
// earlier revisions. So one read shows that the compact revision is still the known one. When it is not, a few more reads
// find the new one, whoever has compacted.
func (s *Store) ask(ctx context.Context) (answer, error) {
	known := s.position.compactRevision()
	revision, err := s.readAt(ctx, known)
	switch {
	case errors.Is(err, storage.ErrCompacted):
		return s.searchCompacted(ctx, known)
	case errors.Is(err, storage.ErrFuture): // the cluster has gone back
		revision, err = s.readAt(ctx, 0)
	}
	return answer{revision, known}, err
}

// searchCompacted returns the revisions of the cluster after it has refused a read at a revision.
func (s *Store) searchCompacted(ctx context.Context, refused uint64) (answer, error) {
	for {
		read, err := s.readAt(ctx, 0)
		if err != nil {
			return answer{}, err
		}
		for refused+1 < read {
			middle := refused + (read-refused)/2
			switch _, err := s.readAt(ctx, middle); {
			case err == nil:
				read = middle
			case errors.Is(err, storage.ErrCompacted):
				refused = middle
			default:
				return answer{}, err
			}
		}
		revision, err := s.readAt(ctx, read)
		if err == nil { // read was the compact revision at this time
			s.position.compact(read)
			return answer{revision, read}, nil
		}
		if !errors.Is(err, storage.ErrCompacted) {
			return answer{}, err
		}
		refused = read
	}
}

// readAt reads nothing at a revision, zero for the latest, and returns the latest revision of the cluster.
func (s *Store) readAt(ctx context.Context, revision uint64) (latest uint64, err error) {
	r, err := s.client.Get(ctx, firstKey, clientv3.WithCountOnly(), clientv3.WithRev(int64(revision)))
	if err != nil {
		return 0, translate(err)
	}
	return uint64(r.Header.Revision), s.position.checkCluster(r.Header.ClusterId)
}

// Compact implements [storage.Store].
func (s *Store) Compact(ctx context.Context, revision uint64) error {
	if _, err := s.catchUp(ctx); err != nil {
		return err
	}
	if err := s.CompactAt(ctx, int64(revision)); err != nil && !errors.Is(err, storage.ErrCompacted) {
		return err
	}
	return s.replica.Compact(ctx, revision)
}

// CompactAt compacts the cluster, so that the compact revision is the given one: watches can begin at it, and earlier revisions
// cannot be read. Unlike Compact, CompactAt returns ErrCompacted if somebody has compacted the revision.
//
// Possible errors: ErrFuture, ErrCompacted, ErrClosed.
func (s *Store) CompactAt(ctx context.Context, revision int64) error {
	if err := s.position.failure(); err != nil {
		return err
	}
	if _, err := s.client.Compact(ctx, revision); err != nil {
		return translate(err)
	}
	s.position.compact(uint64(max(revision, 0)))
	return nil
}

// CompactRevision returns the latest revision, and the compact revision of the cluster at that time, at least
// [storage.First]. The oldest revision that Revisions returns is later if the replica was loaded later.
//
// Possible errors: ErrClosed.
func (s *Store) CompactRevision(ctx context.Context) (latest, compacted uint64, err error) {
	if compacted, err = s.catchUp(ctx); err != nil {
		return 0, 0, err
	}
	latest, _, err = s.replica.Revisions(ctx)
	return latest, compacted, err
}
