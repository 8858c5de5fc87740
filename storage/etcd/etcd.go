// Package etcd is a store in an etcd cluster. Several servers may share the cluster, each with a store of its own.
//
// A store keeps a replica of all records in memory, which one watch of the cluster keeps up to date. Writes are
// transactions of etcd. A write returns when its events have arrived in the replica. Reads are linearizable: a read asks
// the cluster for its revision, waits until the replica has reached the revision, and then reads from memory. Reads that
// begin while another one is asking share the next question, so the load of the cluster does not grow with the number of
// reads. Watches get the history of the replica, which begins when the store is opened.
//
// A record that expires has a lease of etcd, so no store has to expire it. All stores, and kube-apiserver, agree about
// compaction by the key compact_rev_key.
//
// The watch of the replica covers the whole keyspace, with the keys of others too, so the replica reaches every
// revision without progress notifications. The replica, a [memory.Replica], repeats the writes of the cluster at the
// revisions of the cluster. A read never shares a question that was asked before the read began. A get or a list with a
// resource version that the replica has, such as 0, reads the replica as it is ([storage.Replicated]). Revisions from
// before the replica was loaded are read from the cluster.
//
// If events are missing after a compaction, the replica is loaded anew, and its watchers get [storage.ErrCompacted].
// Others compact the cluster too, and etcd has no request for its compact revision. So the question for the revision is
// a read at the known compact revision: if etcd refuses it, a few more reads find the new one (compact.go).
//
// Transact is a transaction of etcd with the condition that the records that were read are unchanged. Its revision is
// known only afterwards.
//
// The module test/etcd tests the package on the real etcd.
package etcd

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"k8s.io/apiserver/pkg/storage/etcd3"
	"k8s.io/utils/clock"

	"flyball.dev/storage"
	"flyball.dev/storage/memory"
)

// Options configure a store.
type Options struct {
	// Endpoints are the URLs of the members of the cluster, such as https://10.0.0.1:2379.
	Endpoints []string
	// TLS is the configuration of connections to https endpoints. It may be nil.
	TLS *tls.Config
	// Prefixes are the prefixes of the keys that the store has. All other keys in the cluster are left alone, and the store
	// must not be given other keys. The default is Prefixes(DefaultPrefix). An empty prefix covers all keys.
	Prefixes []Prefix
	// Memory are the options of the replica. Journal is not used.
	Memory memory.Options
	// CompactionInterval is the time between compactions of the cluster. Zero means that the store compacts only when
	// Compact is called.
	CompactionInterval time.Duration
	// Logf, if not nil, is called with events in the background: a connection that was lost, a new load of the replica.
	Logf func(format string, args ...any)
}

// The keepalive of connections, as in kube-apiserver.
const (
	keepaliveTime    = 30 * time.Second
	keepaliveTimeout = 10 * time.Second
)

// Store is a [storage.Store] in an etcd cluster.
type Store struct {
	options   Options
	client    *clientv3.Client
	replica   *memory.Replica
	position  position
	questions questions
	leases    leases
	compactor interface{ Stop() }

	stop       context.CancelFunc
	background sync.WaitGroup
	closing    sync.Once
}

var _ storage.Store = (*Store)(nil)

// Open connects to a cluster and loads the records. The context bounds the call, not the store. If no endpoint can be
// reached, Open returns an error at once, which says why.
func Open(ctx context.Context, o Options) (*Store, error) {
	if len(o.Prefixes) == 0 {
		o.Prefixes, _ = Prefixes(DefaultPrefix) // is valid
	}
	if o.Logf == nil {
		o.Logf = func(string, ...any) {}
	}
	if err := checkEndpoints(o.Endpoints); err != nil {
		return nil, err
	}
	if err := reach(ctx, o); err != nil {
		return nil, err
	}
	client, err := clientv3.New(clientv3.Config{
		Endpoints: o.Endpoints, TLS: o.TLS, DialKeepAliveTime: keepaliveTime, DialKeepAliveTimeout: keepaliveTimeout,
		Logger: zap.NewNop(), DialOptions: []grpc.DialOption{grpc.WithUserAgent("flyball")},
	})
	if err != nil {
		return nil, fmt.Errorf("etcd: %w", err)
	}
	s := &Store{options: o, client: client, replica: memory.NewReplica(o.Memory), leases: leases{client: client, granting: make(chan struct{}, 1)}}
	s.position.changed, s.position.compacted = make(chan struct{}), storage.First
	s.questions.ask = s.ask
	if err := s.load(ctx); err != nil {
		return nil, errors.Join(translate(err), s.replica.Close(), client.Close())
	}
	s.compactor = etcd3.NewCompactor(client, o.CompactionInterval, clock.RealClock{}, nil)
	background, stop := context.WithCancel(context.Background())
	s.stop = stop
	s.background.Go(func() { s.follow(background) })
	return s, nil
}

// Close implements [storage.Store].
func (s *Store) Close() error {
	var err error
	s.closing.Do(func() {
		s.compactor.Stop()
		s.stop()
		s.position.fail(storage.ErrClosed)
		err = errors.Join(s.replica.Close(), s.client.Close())
		s.background.Wait()
		s.questions.wait()
	})
	return err
}

// firstKey is the first of all keys.
const firstKey = "\x00"

// catchUp waits until the replica has all writes that have returned before the call, and returns the compact revision at
// that time.
func (s *Store) catchUp(ctx context.Context) (compacted uint64, err error) {
	if err := s.position.failure(); err != nil {
		return 0, err
	}
	a, err := s.questions.answer(ctx)
	if err != nil {
		return 0, err
	}
	return a.compacted, s.position.wait(ctx, a.revision)
}

// Revisions implements [storage.Store].
func (s *Store) Revisions(ctx context.Context) (latest, oldest uint64, err error) {
	compacted, err := s.catchUp(ctx)
	if err != nil {
		return 0, 0, err
	}
	latest, oldest, err = s.replica.Revisions(ctx)
	return latest, max(oldest, compacted), err
}

// Get implements [storage.Store].
func (s *Store) Get(ctx context.Context, key string) (*storage.Record, error) {
	if _, err := s.catchUp(ctx); err != nil {
		return nil, err
	}
	return s.replica.Get(ctx, key)
}

// Range implements [storage.Store]. Revisions that the replica does not have are read from the cluster.
func (s *Store) Range(ctx context.Context, q storage.Query) (storage.Page, error) {
	if q.Revision == 0 || q.Revision > s.position.latest() {
		if _, err := s.catchUp(ctx); err != nil {
			return storage.Page{}, err
		}
	}
	return s.rangeAt(ctx, q)
}

var _ storage.Replicated = (*Store)(nil)

// Replica implements [storage.Replicated].
func (s *Store) Replica() storage.Reader { return reader{s} }

// reader reads the replica as it is.
type reader struct{ store *Store }

// Revisions implements [storage.Reader].
func (r reader) Revisions(ctx context.Context) (latest, oldest uint64, err error) {
	if err := r.store.position.failure(); err != nil {
		return 0, 0, err
	}
	latest, oldest, err = r.store.replica.Revisions(ctx)
	return latest, max(oldest, r.store.position.compactRevision()), err
}

// Get implements [storage.Reader].
func (r reader) Get(ctx context.Context, key string) (*storage.Record, error) {
	if err := r.store.position.failure(); err != nil {
		return nil, err
	}
	return r.store.replica.Get(ctx, key)
}

// Range implements [storage.Reader].
func (r reader) Range(ctx context.Context, q storage.Query) (storage.Page, error) {
	if err := r.store.position.failure(); err != nil {
		return storage.Page{}, err
	}
	return r.store.rangeAt(ctx, q)
}

// Watch implements [storage.Store].
func (s *Store) Watch(ctx context.Context, path string, after uint64) (storage.Watcher, error) {
	if after == 0 {
		if _, err := s.catchUp(ctx); err != nil {
			return nil, err
		}
	} else if after+1 < s.position.compactRevision() {
		return nil, storage.ErrCompacted
	}
	return s.replica.Watch(ctx, path, after)
}

// translate returns the error of the contract for an error of etcd.
func translate(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, rpctypes.ErrNoSpace):
		return fmt.Errorf("%w: %w", storage.ErrNoSpace, err)
	case errors.Is(err, rpctypes.ErrCompacted):
		return fmt.Errorf("%w: %w", storage.ErrCompacted, err)
	case errors.Is(err, rpctypes.ErrFutureRev):
		return fmt.Errorf("%w: %w", storage.ErrFuture, err)
	case leaseError(err) != nil:
		return leaseError(err)
	}
	return fmt.Errorf("etcd: %w", err)
}

var (
	_ storage.Historian = (*Store)(nil)
	_ storage.Indexer   = (*Store)(nil)
)

// HistorySize implements [storage.Historian].
func (s *Store) HistorySize() int { return s.replica.HistorySize() }

// AddIndex implements [storage.Indexer].
func (s *Store) AddIndex(i storage.Index) error { return s.replica.AddIndex(i) }
