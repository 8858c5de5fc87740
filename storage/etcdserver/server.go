// Package etcdserver serves etcd's API over a store: the services KV, Watch, Lease, Maintenance and Cluster, and the
// health service of gRPC, as etcd 3.7 with one member. Revisions, results and errors are etcd's.
//
// These things differ from etcd:
//
//   - A transaction must not write a key twice. etcd finds out before it begins, except for some deletions of ranges; the
//     server then returns the same error.
//   - The store bounds its history, so revisions may be compacted that no client has compacted.
//   - Members cannot be added, and there are no users and roles. The requests for them return codes.Unimplemented.
//   - A store in an etcd cluster bounds the keys that one request may delete, by storage.MaxOperations.
//   - Maintenance.Hash and HashKV return hashes of our own.
//   - Maintenance.Snapshot sends a database of etcd that has no history. The members and the version of the cluster, which a
//     restoration replaces, are not in it. A record that expires without a lease has one in it.
//
// A transaction of etcd compares and reads before it writes, may delete any number of keys, and has all its effects at
// one revision. Conditions of a commit cannot say this, and with them, transactions would be tried again and again
// under load. So the stores have Transact and leases for this package. On a store in an etcd cluster, the revision of a
// transaction is known only afterwards, and the server puts it into the response.
//
// TestAPI of the module test/etcd sends the same random requests to the real etcd and to this package, and compares all
// responses, errors and events. Operators do not link the package (TestOperatorsLinkNoStorage).
package etcdserver

import (
	"context"
	"errors"
	"hash/fnv"
	"math"
	"net/http"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"flyball.dev/storage"
)

// Version is the version of etcd that the server reports.
const Version = "3.7.0"

// clusterVersion is the version of the cluster and of its storage.
const clusterVersion = "3.7.0"

const (
	// maxOperations is the largest number of compares, and of operations of one branch, of a transaction.
	maxOperations = 128
	// maxRequest is the largest size of a request that writes, in bytes, and requestOverhead what a message may have more.
	maxRequest      = 1536 << 10
	requestOverhead = 512 << 10
	// term is the term of a raft cluster of one member after its first election.
	term = 2
)

// Store is a store that can serve etcd's API.
type Store interface {
	storage.Transactor
	storage.Lessor
}

// Options configure a server.
type Options struct {
	// Store has the records. The server does not close it.
	Store Store
	// Name is the name of the only member of the cluster. The default is "default".
	Name string
	// ClientURLs and PeerURLs are the URLs of the member, as the list of members has them.
	ClientURLs, PeerURLs []string
	// ProgressInterval is about how often a watch with progress_notify gets a response when it has no events. The default
	// is 10 minutes.
	ProgressInterval time.Duration
}

// Server is a server of etcd's API. All methods may be called concurrently.
type Server struct {
	options Options
	store   Store
	id      uint64 // of the member, and of the cluster
	grpc    *grpc.Server
	http    *http.Server
	probes  http.Handler

	// compacting has a value while a request compacts the store.
	compacting chan struct{}

	mu sync.Mutex
	// compacted is the highest revision that this server has compacted at; -1 before the first.
	compacted int64
}

// New returns a server. The caller must call Stop.
func New(o Options) *Server {
	if o.Name == "" {
		o.Name = "default"
	}
	if o.ProgressInterval <= 0 {
		o.ProgressInterval = 10 * time.Minute
	}
	hash := fnv.New64a()
	_, _ = hash.Write([]byte("flyball/" + o.Name))
	s := &Server{options: o, store: o.Store, id: hash.Sum64(), compacting: make(chan struct{}, 1), compacted: -1}
	s.grpc = grpc.NewServer(grpc.MaxRecvMsgSize(maxRequest+requestOverhead), grpc.MaxSendMsgSize(math.MaxInt32))
	etcdserverpb.RegisterKVServer(s.grpc, &kv{Server: s})
	etcdserverpb.RegisterWatchServer(s.grpc, &watchServer{Server: s})
	etcdserverpb.RegisterLeaseServer(s.grpc, &leases{Server: s})
	etcdserverpb.RegisterMaintenanceServer(s.grpc, &maintenance{Server: s})
	etcdserverpb.RegisterClusterServer(s.grpc, &cluster{Server: s})
	etcdserverpb.RegisterAuthServer(s.grpc, &auth{Server: s})
	h := health.NewServer()
	h.SetServingStatus("", healthpb.HealthCheckResponse_SERVING)
	healthpb.RegisterHealthServer(s.grpc, h)
	s.http, s.probes = s.newHTTP(), s.newProbes()
	return s
}

// Stop ends all requests and watches, and closes the listeners.
func (s *Server) Stop() {
	_ = s.http.Close() // the connections are ended either way
	s.grpc.Stop()
}

// header returns the header of a response at a revision.
func (s *Server) header(revision int64) *etcdserverpb.ResponseHeader {
	return &etcdserverpb.ResponseHeader{ClusterId: s.id, MemberId: s.id, RaftTerm: term, Revision: revision}
}

// latest returns the header of a response at the latest revision.
func (s *Server) latest(ctx context.Context) (*etcdserverpb.ResponseHeader, error) {
	latest, _, err := s.store.Revisions(ctx)
	if err != nil {
		return nil, rpcError(err)
	}
	return s.header(int64(latest)), nil
}

// rpcError returns etcd's error for an error of the store. Other errors are returned as they are.
func rpcError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, storage.ErrCompacted):
		return rpctypes.ErrGRPCCompacted
	case errors.Is(err, storage.ErrFuture):
		return rpctypes.ErrGRPCFutureRev
	case errors.Is(err, storage.ErrNoSpace):
		return rpctypes.ErrGRPCNoSpace
	case errors.Is(err, storage.ErrDuplicate):
		return rpctypes.ErrGRPCDuplicateKey
	case errors.Is(err, storage.ErrTooMany):
		return rpctypes.ErrGRPCTooManyOps
	case errors.Is(err, storage.ErrNoLease):
		return rpctypes.ErrGRPCLeaseNotFound
	case errors.Is(err, storage.ErrLeaseExists):
		return rpctypes.ErrGRPCLeaseExist
	case errors.Is(err, storage.ErrClosed):
		return rpctypes.ErrGRPCStopped
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	}
	if _, ok := status.FromError(err); ok {
		return err
	}
	return status.Error(codes.Unknown, err.Error())
}
