// Package robustness runs the traffic of etcd's robustness tests against etcd's API over our stores, and validates the
// recorded histories with etcd's own model: operations are linearizable, reads at a revision return its state, and watches
// deliver all events, once and in order.
package robustness

import (
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.etcd.io/etcd/tests/v3/robustness/client"
	"go.etcd.io/etcd/tests/v3/robustness/identity"
	"go.etcd.io/etcd/tests/v3/robustness/model"
	"go.etcd.io/etcd/tests/v3/robustness/traffic"
	"go.etcd.io/etcd/tests/v3/robustness/validate"
	"go.uber.org/zap"
	"golang.org/x/time/rate"

	"flyball.dev/storage"
	"flyball.dev/storage/etcdserver"
	"flyball.dev/storage/etcdserver/etcdservertest"
	"flyball.dev/storage/memory"
)

var duration = flag.Duration("traffic", 2*time.Second, "how long each traffic runs, besides the faults")

// load is etcd's medium load with fewer clients: whenever a server fails, each client has a request that may have taken place.
var load = func() traffic.KeyValue {
	l := traffic.KeyValueMedium
	l.MemberClientCount, l.ClusterClientCount = 3, 1
	return l
}()

// TestRobustness runs each traffic against each store, while the servers are killed, stopped for a while and disconnected,
// and a client compacts the history all the time.
func TestRobustness(t *testing.T) {
	for name, tr := range map[string]traffic.Traffic{
		"put, delete, lease": traffic.EtcdPutDeleteLease,
		"delete":             traffic.EtcdDelete,
		"kubernetes":         traffic.Kubernetes,
		"create and delete":  traffic.KubernetesCreateDelete,
	} {
		t.Run(name, func(t *testing.T) {
			t.Run("memory", func(t *testing.T) {
				requests := filepath.Join(t.TempDir(), "requests")
				s := startServer(t, configuration{Requests: requests})
				check(t, run(t, tr, setup{
					endpoints: []string{s.address}, faults: []func(){s.pause, s.disconnect},
					persisted: func() (all []model.EtcdRequest) {
						s.end(syscall.SIGTERM)
						text, err := os.ReadFile(requests)
						if err == nil {
							err = json.Unmarshal(text, &all)
						}
						if err != nil {
							t.Fatal(err)
						}
						return all
					},
				}))
			})
			t.Run("datadir", func(t *testing.T) {
				dir := t.TempDir()
				s := startServer(t, configuration{Dir: dir})
				check(t, run(t, tr, setup{
					endpoints: []string{s.address}, faults: []func(){s.crash, s.disconnect, s.crash, s.pause, s.crash},
					persisted: func() []model.EtcdRequest {
						s.end(syscall.SIGKILL)
						return fromLog(t, dir)
					},
				}))
			})
			t.Run("etcd", func(t *testing.T) {
				members, dirs := startMembers(t, 3)
				var endpoints []string
				for _, m := range members {
					endpoints = append(endpoints, m.url)
				}
				one, two := startServer(t, configuration{Endpoints: endpoints}), startServer(t, configuration{Endpoints: endpoints})
				check(t, run(t, tr, setup{
					endpoints: []string{one.address, two.address},
					faults:    []func(){one.crash, two.pause, members[0].crash, two.disconnect, members[1].pause, members[2].crash},
					persisted: func() []model.EtcdRequest {
						for _, m := range members {
							m.end(syscall.SIGKILL)
						}
						return fromWAL(t, dirs)
					},
				}))
			})
		})
	}
}

// check requires that a history is valid. A check that was not made is no success.
func check(t *testing.T, r validate.RobustnessResult) {
	t.Helper()
	for name, result := range map[string]validate.Result{
		"assumptions": r.Assumptions, "linearization": r.Linearization.Result, "watches": r.Watch, "reads at revisions": r.Serializable,
	} {
		if result.Status != validate.Success {
			t.Errorf("%s: %q %s", name, result.Status, result.Message)
		}
	}
}

// losing is a store with watchers that lose an event now and then.
type losing struct{ *memory.Store }

func (s losing) Watch(ctx context.Context, path string, after uint64) (storage.Watcher, error) {
	w, err := s.Store.Watch(ctx, path, after)
	return &losingWatcher{Watcher: w}, err
}

type losingWatcher struct {
	storage.Watcher
	events int
}

func (w *losingWatcher) Next() ([]*storage.Event, uint64, error) {
	events, revision, err := w.Watcher.Next()
	if w.events += len(events); w.events > 50 && len(events) > 0 {
		w.events, events = 0, events[1:]
	}
	return events, revision, err
}

// TestLostEvents requires that the validation finds lost events.
func TestLostEvents(t *testing.T) {
	recorded := &recording{Store: losing{memory.New(memory.Options{})}}
	result := run(t, traffic.EtcdPutDeleteLease, setup{
		endpoints: []string{etcdservertest.Serve(t, etcdserver.Options{Store: recorded})}, persisted: recorded.requests,
	})
	if err := result.Linearization.Error(); err != nil {
		t.Errorf("linearization: %v", err)
	}
	if err := result.Watch.Error(); err == nil {
		t.Error("not found")
	} else {
		t.Log(err)
	}
}

// setup are servers for traffic.
type setup struct {
	endpoints []string
	// faults are called one after another, in a random order, while the traffic runs.
	faults []func()
	// persisted returns the requests that took place. The servers are not used any more.
	persisted func() []model.EtcdRequest
}

// run runs traffic against servers, and validates it.
func run(t *testing.T, tr traffic.Traffic, servers setup) validate.RobustnessResult {
	t.Helper()
	endpoints := servers.endpoints
	set := client.NewSet(identity.NewIDProvider(), time.Now())
	defer set.Close()
	logger := zap.NewNop()
	if err := traffic.CheckEmptyDatabaseAtStart(t.Context(), logger, endpoints, set); err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	finish := make(chan struct{})
	limiter := rate.NewLimiter(rate.Limit(load.MaximalQPS), load.BurstableQPS)
	keys, objects := traffic.NewKeyStore(10, "key"), traffic.NewKubernetesStorage()
	err := traffic.SimulateKeyValueTraffic(t.Context(), &running, &load, endpoints, set, tr, traffic.RunTrafficLoopParam{
		QPSLimiter: limiter, IDs: set.IdentityProvider(), LeaseIDStorage: identity.NewLeaseIDStorage(),
		NonUniqueRequestConcurrencyLimiter: traffic.NewConcurrencyLimiter(load.MaxNonUniqueRequestConcurrency),
		KeyStore:                           keys, Storage: objects, Finish: finish,
	})
	if err != nil {
		t.Fatal(err)
	}
	err = traffic.SimulateWatchTraffic(t.Context(), &running, &traffic.WatchDefault, endpoints, set, tr, traffic.RunWatchLoopParam{
		Config: traffic.WatchDefault, QPSLimiter: limiter, KeyStore: keys, Storage: objects, Finish: finish, Logger: logger,
	})
	if err != nil {
		t.Fatal(err)
	}
	err = traffic.SimulateCompactionTraffic(t.Context(), &running, &traffic.CompactionFrequent, endpoints, set, tr, traffic.RunCompactLoopParam{
		Period: traffic.CompactionFrequent.Period, Finish: finish,
	})
	if err != nil {
		t.Fatal(err)
	}
	pause := *duration / time.Duration(len(servers.faults)+1)
	progress := newProgress(t, endpoints)
	for _, i := range rand.Perm(len(servers.faults)) {
		progress.wait(pause, 15)
		servers.faults[i]()
	}
	recovered := time.Since(set.BaseTime())
	progress.wait(max(pause, time.Second), 30)
	close(finish)
	running.Wait()
	last, err := set.NewClient(endpoints)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := last.Put(t.Context(), "tombstone", "true"); err != nil {
		t.Fatal(err)
	}
	reports := set.Reports()
	all, after := traffic.CalculateStats(reports, 0, time.Hour), traffic.CalculateStats(reports, recovered, time.Hour)
	requests := servers.persisted()
	watches := traffic.CalculateWatchStats(reports, 0, time.Hour)
	t.Logf("%d requests succeeded and %d failed, %d have written; %d watches with %d events", all.Successes, all.Failures, len(requests), watches.Requests, watches.Events)
	if len(requests) < 50 || watches.Events < 50 || after.Successes < 5 {
		t.Errorf("there is too little traffic: %d writes, %d events, %d requests after the faults", len(requests), watches.Events, after.Successes)
	}
	return validate.ValidateAndReturnVisualize(logger, validate.Config{ExpectRevisionUnique: tr.ExpectUniqueRevision()}, withoutEffects(reports, requests), requests, 5*time.Minute)
}

// recording is a store that keeps a list of the requests that it has committed. The validation gets such a list from etcd's
// log: a client does not know of each request whether it was committed.
type recording struct {
	etcdserver.Store
	mu  sync.Mutex
	all []committed
}

// committed is a request that was committed.
type committed struct {
	revision int64
	order    int // of the requests with one revision, which the first may have made
	request  model.EtcdRequest
}

func (s *recording) note(revision uint64, order int, r model.EtcdRequest) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, committed{int64(revision), order, r})
}

// requests returns the requests in their order.
func (s *recording) requests() (requests []model.EtcdRequest) {
	s.mu.Lock()
	defer s.mu.Unlock()
	slices.SortStableFunc(s.all, func(a, b committed) int {
		return cmp.Or(cmp.Compare(a.revision, b.revision), cmp.Compare(a.order, b.order))
	})
	for _, c := range s.all {
		requests = append(requests, c.request)
	}
	return requests
}

// Transact notes the writes as a transaction without conditions.
func (s *recording) Transact(ctx context.Context, f func(storage.View) ([]storage.Write, error)) (uint64, error) {
	var writes []storage.Write
	revision, err := s.Store.Transact(ctx, func(v storage.View) (_ []storage.Write, err error) {
		writes, err = f(v)
		return writes, err
	})
	if err != nil || len(writes) == 0 {
		return revision, err
	}
	txn := &model.TxnRequest{}
	for _, w := range writes {
		if w.Delete {
			txn.OperationsOnSuccess = append(txn.OperationsOnSuccess, remove(w.Key))
		} else {
			txn.OperationsOnSuccess = append(txn.OperationsOnSuccess, put(w.Key, string(w.Value), w.Lease))
		}
	}
	s.note(revision, 0, model.EtcdRequest{Type: model.Txn, Txn: txn})
	return revision, nil
}

// Grant notes the lease at the beginning, since nobody uses its ID before.
func (s *recording) Grant(ctx context.Context, id int64, ttl time.Duration) (storage.Lease, error) {
	s.note(0, 0, model.EtcdRequest{Type: model.LeaseGrant, LeaseGrant: &model.LeaseGrantRequest{LeaseID: id}})
	return s.Store.Grant(ctx, id, ttl)
}

// Revoke notes the request after the one that has made its revision, if there is one.
func (s *recording) Revoke(ctx context.Context, id int64) (uint64, error) {
	revision, err := s.Store.Revoke(ctx, id)
	if err == nil {
		s.note(revision, 1, model.EtcdRequest{Type: model.LeaseRevoke, LeaseRevoke: &model.LeaseRevokeRequest{LeaseID: id}})
	}
	return revision, err
}

// Compact notes the request of the client, for which the server keeps a revision more.
func (s *recording) Compact(ctx context.Context, revision uint64) error {
	latest, _, err := s.Store.Revisions(ctx)
	if err == nil {
		err = s.Store.Compact(ctx, revision)
	}
	if err == nil {
		s.note(latest, 2, model.EtcdRequest{Type: model.Compact, Compact: &model.CompactRequest{Revision: int64(revision) + 1}})
	}
	return err
}
