package etcd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"flyball.dev/storage"
)

const (
	// loadPage is the number of records that are read at once.
	loadPage = 1000
	// The delays between attempts to reach the cluster double from firstRetry to lastRetry.
	firstRetry = 50 * time.Millisecond
	lastRetry  = time.Second
)

// load replaces the contents of the replica by the records of the cluster.
func (s *Store) load(ctx context.Context) error {
	for {
		err := s.loadOnce(ctx)
		if !errors.Is(err, rpctypes.ErrCompacted) {
			return err
		}
	}
}

// loadOnce reads all records at one revision. If the revision is compacted meanwhile, loadOnce fails.
func (s *Store) loadOnce(ctx context.Context) error {
	var records []storage.Record
	var values [][]byte
	var revision int64
	for _, prefix := range s.options.Prefixes {
		key, end := prefix.Cluster, clientv3.GetPrefixRangeEnd(prefix.Cluster)
		if key == "" {
			key = firstKey
		}
		for {
			page, err := s.client.Get(ctx, key, clientv3.WithRange(end), clientv3.WithLimit(loadPage), clientv3.WithRev(revision))
			if err != nil {
				return err
			}
			if err := s.position.checkCluster(page.Header.ClusterId); err != nil {
				return err
			}
			if revision == 0 {
				revision = page.Header.Revision
			}
			for _, kv := range page.Kvs {
				records = append(records, s.record(kv))
				values = append(values, kv.Value)
			}
			if !page.More {
				break
			}
			key = string(page.Kvs[len(page.Kvs)-1].Key) + "\x00"
		}
	}
	if err := s.replica.Replace(uint64(revision), records, values); err != nil {
		return err
	}
	s.position.reach(uint64(revision))
	return nil
}

// record returns the record of a key, without the value.
func (s *Store) record(kv *mvccpb.KeyValue) storage.Record {
	key, _ := s.fromCluster(string(kv.Key)) // the key was asked for
	return storage.Record{Key: key, Revision: uint64(kv.ModRevision), Created: uint64(kv.CreateRevision), Version: uint64(kv.Version), Lease: kv.Lease}
}

// follow keeps the replica up to date until ctx ends.
func (s *Store) follow(ctx context.Context) {
	delay, logged := firstRetry, ""
	for {
		before := s.position.latest()
		err := s.watch(ctx)
		if errors.Is(err, errLost) {
			s.options.Logf("etcd: %v; loading all records again", err)
			err = s.load(ctx)
		}
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, errBackwards), errors.Is(err, errOther):
			s.position.fail(err)
			s.options.Logf("etcd: %v", err)
			return
		case s.position.latest() > before:
			delay, logged = firstRetry, ""
		}
		if err != nil && err.Error() != logged { // the same error comes again and again while the cluster is away
			logged = err.Error()
			s.options.Logf("etcd: the watch has ended, trying again: %v", err)
		}
		select {
		case <-time.After(delay):
		case <-ctx.Done():
		}
		delay = min(2*delay, lastRetry)
	}
}

var (
	// errLost means that events are missing.
	errLost = errors.New("events are missing")
	// errBackwards means that the cluster is at an earlier revision than before, as after its restoration.
	errBackwards = errors.New("the cluster has gone back to an earlier revision; restart the server")
)

// watch applies all writes of the cluster to the replica until the watch ends. Writes to other keys are watched too, so
// that the replica reaches each revision of the cluster.
func (s *Store) watch(ctx context.Context) error {
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	if err := s.checkCluster(ctx); err != nil {
		return err
	}
	responses := s.client.Watch(ctx, firstKey, clientv3.WithFromKey(), clientv3.WithRev(int64(s.position.latest())+1), clientv3.WithFragment())
	for r := range responses {
		if r.CompactRevision != 0 {
			return fmt.Errorf("%w: revision %d is needed, and the cluster has compacted %d", errLost, s.position.latest()+1, r.CompactRevision)
		}
		if err := r.Err(); err != nil {
			return err
		}
		if err := s.apply(r.Events); err != nil {
			return err
		}
	}
	return nil
}

// checkCluster returns errBackwards if the cluster is at an earlier revision than the replica.
func (s *Store) checkCluster(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	revision, err := s.readAt(ctx, 0)
	if err == nil && revision < s.position.latest() {
		err = fmt.Errorf("%w: it is at revision %d, and was at %d", errBackwards, revision, s.position.latest())
	}
	return err
}

// apply applies the events of whole revisions to the replica.
func (s *Store) apply(events []*clientv3.Event) error {
	for len(events) > 0 {
		revision := events[0].Kv.ModRevision
		var writes []storage.Write
		for ; len(events) > 0 && events[0].Kv.ModRevision == revision; events = events[1:] {
			e := events[0]
			if key, ok := s.fromCluster(string(e.Kv.Key)); ok {
				writes = append(writes, storage.Write{Key: key, Value: e.Kv.Value, Lease: e.Kv.Lease, Delete: e.Type == clientv3.EventTypeDelete})
			}
		}
		if err := s.replica.Apply(uint64(revision), writes); err != nil {
			return fmt.Errorf("%w: %w", errLost, err)
		}
		s.position.reach(uint64(revision))
	}
	return nil
}
