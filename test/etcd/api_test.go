package etcd

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"flyball.dev/storage"
	"flyball.dev/storage/datadir"
	"flyball.dev/storage/etcd"
	"flyball.dev/storage/etcdserver"
	"flyball.dev/storage/etcdserver/etcdservertest"
	"flyball.dev/storage/memory"
)

// side is one of two servers of etcd's API that get the same requests.
type side struct {
	name        string
	kv          etcdserverpb.KVClient
	watch       etcdserverpb.WatchClient
	lease       etcdserverpb.LeaseClient
	maintenance etcdserverpb.MaintenanceClient
}

func newSide(t testing.TB, name, address string) *side {
	t.Helper()
	conn, err := grpc.NewClient(strings.TrimPrefix(address, "http://"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return &side{
		name, etcdserverpb.NewKVClient(conn), etcdserverpb.NewWatchClient(conn),
		etcdserverpb.NewLeaseClient(conn), etcdserverpb.NewMaintenanceClient(conn),
	}
}

// serveStore serves etcd's API over a store until the test ends, and returns the address.
func serveStore(t testing.TB, s etcdserver.Store) string {
	t.Helper()
	return etcdservertest.Serve(t, etcdserver.Options{Store: s})
}

// TestAPI sends the same random requests to the real etcd and to etcd's API over our stores, and compares the responses,
// the errors and the events of watches.
func TestAPI(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			var store etcdserver.Store = memory.New(memory.Options{})
			switch seed % 3 {
			case 1:
				var err error
				if store, err = datadir.Open(t.TempDir(), datadir.Options{}); err != nil {
					t.Fatal(err)
				}
			case 2:
				store = open(t, startCluster(t, 1), etcd.Options{})
			}
			d := newDiffer(t, seed, store)
			if err := d.run(500); err != nil {
				t.Fatal(err)
			}
			t.Logf("%v", d.counts)
			if d.counts["txn skipped"] > 50 || d.counts["watch"] < 10 {
				t.Errorf("the requests are of the wrong kinds: %v", d.counts)
			}
		})
	}
}

// TestAPIFindsBugs plants bugs in a store, and requires that TestAPI finds them.
func TestAPIFindsBugs(t *testing.T) {
	for name, plant := range map[string]func(*memory.Store) etcdserver.Store{
		"no remaining records": func(s *memory.Store) etcdserver.Store { return noRemaining{s} },
		"lost leases":          func(s *memory.Store) etcdserver.Store { return lostLeases{s} },
		"no previous records":  func(s *memory.Store) etcdserver.Store { return noPrevious{s} },
		"late events":          func(s *memory.Store) etcdserver.Store { return lateWatch{s} },
		"two transactions":     func(s *memory.Store) etcdserver.Store { return twoTransactions{s} },
	} {
		t.Run(name, func(t *testing.T) {
			d := newDiffer(t, 1, plant(memory.New(memory.Options{})))
			err := d.run(500)
			if err == nil {
				t.Fatal("not found")
			}
			t.Log(err)
		})
	}
}

type noRemaining struct{ *memory.Store }

func (s noRemaining) Range(ctx context.Context, q storage.Query) (storage.Page, error) {
	page, err := s.Store.Range(ctx, q)
	page.Remaining = 0
	return page, err
}

type lostLeases struct{ *memory.Store }

func (s lostLeases) Transact(ctx context.Context, f func(storage.View) ([]storage.Write, error)) (uint64, error) {
	return s.Store.Transact(ctx, func(v storage.View) ([]storage.Write, error) {
		writes, err := f(v)
		for i := range writes {
			writes[i].Lease = 0
		}
		return writes, err
	})
}

// twoTransactions writes the second half of a transaction at a revision of its own.
type twoTransactions struct{ *memory.Store }

func (s twoTransactions) Transact(ctx context.Context, f func(storage.View) ([]storage.Write, error)) (uint64, error) {
	var second []storage.Write
	revision, err := s.Store.Transact(ctx, func(v storage.View) ([]storage.Write, error) {
		writes, err := f(v)
		second = writes[(len(writes)+1)/2:]
		return writes[:(len(writes)+1)/2], err
	})
	if err != nil || len(second) == 0 {
		return revision, err
	}
	_, err = s.Commit(ctx, second)
	return revision, err
}

type noPrevious struct{ *memory.Store }

func (s noPrevious) Watch(ctx context.Context, path string, after uint64) (storage.Watcher, error) {
	w, err := s.Store.Watch(ctx, path, after)
	return withoutPrevious{w}, err
}

type withoutPrevious struct{ storage.Watcher }

func (w withoutPrevious) Next() ([]*storage.Event, uint64, error) {
	events, revision, err := w.Watcher.Next()
	var without []*storage.Event
	for _, e := range events {
		without = append(without, &storage.Event{Type: e.Type, Record: e.Record})
	}
	return without, revision, err
}

// lateWatch loses the first revision of a watch of the past.
type lateWatch struct{ *memory.Store }

func (s lateWatch) Watch(ctx context.Context, path string, after uint64) (storage.Watcher, error) {
	if latest, _, err := s.Revisions(ctx); err == nil && after < latest {
		after++
	}
	return s.Store.Watch(ctx, path, after)
}

// differ sends random requests to two servers. The first is the real etcd.
type differ struct {
	t         testing.TB
	ctx       context.Context
	random    *rand.Rand
	sides     [2]*side
	revision  int64 // the latest
	compacted int64
	watches   []*watchPair
	counts    map[string]int
}

func newDiffer(t testing.TB, seed uint64, store etcdserver.Store) *differ {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	return &differ{
		t: t, ctx: ctx, random: rand.New(rand.NewPCG(seed, 11)), revision: 1, counts: map[string]int{},
		sides: [2]*side{newSide(t, "etcd", startCluster(t, 1).members[0].url), newSide(t, "ours", serveStore(t, store))},
	}
}

// run sends n requests, and returns the first difference.
func (d *differ) run(n int) error {
	for i := range n {
		if err := d.step(); err != nil {
			return fmt.Errorf("request %d: %w", i, err)
		}
	}
	for _, w := range d.watches { // the ones of the future begin
		for w.request.StartRevision > d.revision {
			if err := d.put(); err != nil {
				return err
			}
		}
	}
	return d.sync()
}

func (d *differ) step() error {
	switch n := d.random.IntN(100); {
	case n < 25:
		return d.put()
	case n < 40:
		return d.txn()
	case n < 50:
		return d.deleteRange()
	case n < 70:
		return d.rangeKeys()
	case n < 73:
		return d.rangeStream()
	case n < 76:
		return d.compact()
	case n < 88:
		return d.changeLease()
	case n < 97:
		return d.createWatch()
	}
	return d.sync()
}

// call sends a request to both sides, and compares the responses.
func call[Request, Response proto.Message](d *differ, kind string, r Request, method func(*side, Request) (Response, error)) (response Response, ok bool, err error) {
	d.counts[kind]++
	var responses [2]Response
	var errs [2]error
	for i, s := range d.sides {
		responses[i], errs[i] = method(s, proto.Clone(r).(Request))
	}
	return compare(d, kind, r, responses, errs)
}

// compare compares the responses to a request, and returns one unless they are errors.
func compare[Request, Response proto.Message](d *differ, kind string, r Request, responses [2]Response, errs [2]error) (response Response, ok bool, err error) {
	if status.Convert(errs[0]).String() != status.Convert(errs[1]).String() {
		return response, false, fmt.Errorf("%s of %v:\netcd: %v, %v\nours: %v, %v", kind, r, responses[0], errs[0], responses[1], errs[1])
	}
	if errs[0] != nil {
		d.counts[kind+" refused"]++
		return response, false, nil
	}
	for i := range responses {
		normalize(responses[i])
	}
	if !proto.Equal(responses[0], responses[1]) {
		return response, false, fmt.Errorf("%s of %v:\netcd: %v\nours: %v", kind, r, responses[0], responses[1])
	}
	return responses[1], true, nil
}

// normalize removes what two servers need not have in common.
func normalize(m proto.Message) {
	if r, ok := m.(interface {
		GetHeader() *etcdserverpb.ResponseHeader
	}); ok && r.GetHeader() != nil {
		h := r.GetHeader()
		h.ClusterId, h.MemberId, h.RaftTerm = 0, 0, 0
	}
	switch r := m.(type) {
	case *etcdserverpb.LeaseTimeToLiveResponse:
		slices.SortFunc(r.Keys, func(a, b []byte) int { return strings.Compare(string(a), string(b)) })
		if r.TTL > 0 {
			r.TTL = (r.TTL + 50) / 100 * 100 // seconds may pass
		}
	case *etcdserverpb.LeaseLeasesResponse:
		slices.SortFunc(r.Leases, func(a, b *etcdserverpb.LeaseStatus) int { return int(a.ID - b.ID) })
	}
}

var someKeys = []string{"a", "a/", "a/b", "a/b/c", "a0", "b", "b/x", "b/y", "c", "\x00", "\xff"}

func (d *differ) key() []byte { return []byte(someKeys[d.random.IntN(len(someKeys))]) }

func (d *differ) value() []byte { return []byte(fmt.Sprint(d.random.IntN(10))) }

func (d *differ) chance(n int) bool { return d.random.IntN(n) == 0 }

// keys returns a key and a range end: a key, a prefix, a range, or from a key on.
func (d *differ) keys() (key, end []byte) {
	key = d.key()
	if d.chance(40) {
		key = nil
	}
	switch d.random.IntN(6) {
	case 0, 1:
	case 2:
		end = []byte{0}
	case 3:
		key, end = []byte("a/"), []byte("a0")
	default:
		end = d.key()
	}
	return key, end
}

// past returns a revision, often a recent one: zero, one in the future and negative ones too.
func (d *differ) past() int64 {
	switch d.random.IntN(8) {
	case 0, 1:
		return 0
	case 2:
		return d.compacted + int64(d.random.IntN(3)) - 1
	}
	return d.revision + 2 - int64(d.random.IntN(20))
}

func (d *differ) putRequest() *etcdserverpb.PutRequest {
	r := &etcdserverpb.PutRequest{Key: d.key(), Value: d.value(), PrevKv: d.chance(2)}
	switch d.random.IntN(12) {
	case 0:
		r.IgnoreValue, r.Value = true, nil
	case 1:
		r.IgnoreLease = true
	case 2:
		r.IgnoreValue, r.IgnoreLease, r.Value = true, true, nil
	case 3:
		r.IgnoreValue = true
	}
	if d.chance(5) {
		r.Lease = d.leaseID()
	}
	return r
}

func (d *differ) put() error {
	response, ok, err := call(d, "put", d.putRequest(), func(s *side, r *etcdserverpb.PutRequest) (*etcdserverpb.PutResponse, error) {
		return s.kv.Put(d.ctx, r)
	})
	if ok {
		d.revision = response.Header.Revision
	}
	return err
}

func (d *differ) deleteRequest() *etcdserverpb.DeleteRangeRequest {
	key, end := d.keys()
	if d.chance(2) {
		end = nil // so that something is left
	}
	return &etcdserverpb.DeleteRangeRequest{Key: key, RangeEnd: end, PrevKv: d.chance(2)}
}

func (d *differ) deleteRange() error {
	response, ok, err := call(d, "delete", d.deleteRequest(), func(s *side, r *etcdserverpb.DeleteRangeRequest) (*etcdserverpb.DeleteRangeResponse, error) {
		return s.kv.DeleteRange(d.ctx, r)
	})
	if ok {
		d.revision = response.Header.Revision
	}
	return err
}

func (d *differ) rangeRequest() *etcdserverpb.RangeRequest {
	key, end := d.keys()
	r := &etcdserverpb.RangeRequest{Key: key, RangeEnd: end, CountOnly: d.chance(8), KeysOnly: d.chance(4), Serializable: d.chance(4)}
	if d.chance(3) {
		r.Revision = d.past()
	}
	if d.chance(2) {
		r.Limit = int64(d.random.IntN(6) - 1)
	}
	if d.chance(3) {
		r.SortOrder = etcdserverpb.RangeRequest_SortOrder(d.random.IntN(3))
		r.SortTarget = etcdserverpb.RangeRequest_SortTarget(d.random.IntN(5))
	}
	for _, bound := range []*int64{&r.MinModRevision, &r.MaxModRevision, &r.MinCreateRevision, &r.MaxCreateRevision} {
		if d.chance(12) {
			*bound = d.past()
		}
	}
	return r
}

func (d *differ) rangeKeys() error {
	_, _, err := call(d, "range", d.rangeRequest(), func(s *side, r *etcdserverpb.RangeRequest) (*etcdserverpb.RangeResponse, error) {
		return s.kv.Range(d.ctx, r)
	})
	return err
}

// rangeStream compares the merged responses. With a sort target and no order, etcd sorts each part and continues after its
// last key, and so repeats pairs and miscounts.
func (d *differ) rangeStream() error {
	r := d.rangeRequest()
	if r.SortOrder == etcdserverpb.RangeRequest_NONE {
		r.SortTarget = etcdserverpb.RangeRequest_KEY
	}
	_, _, err := call(d, "stream", r, func(s *side, r *etcdserverpb.RangeRequest) (*etcdserverpb.RangeResponse, error) {
		stream, err := s.kv.RangeStream(d.ctx, r)
		whole := &etcdserverpb.RangeResponse{}
		for err == nil {
			var part *etcdserverpb.RangeStreamResponse
			if part, err = stream.Recv(); err == nil {
				proto.Merge(whole, part.RangeResponse)
			}
		}
		if status.Code(err).String() == "Unknown" { // io.EOF
			return whole, nil
		}
		return nil, err
	})
	return err
}

func (d *differ) condition() *etcdserverpb.Compare {
	key, end := d.keys()
	c := &etcdserverpb.Compare{
		Key: key, Result: etcdserverpb.Compare_CompareResult(d.random.IntN(4)), Target: etcdserverpb.Compare_CompareTarget(d.random.IntN(5)),
	}
	if d.chance(2) {
		c.RangeEnd = end
	}
	switch c.Target {
	case etcdserverpb.Compare_VERSION:
		c.TargetUnion = &etcdserverpb.Compare_Version{Version: int64(d.random.IntN(4))}
	case etcdserverpb.Compare_CREATE:
		c.TargetUnion = &etcdserverpb.Compare_CreateRevision{CreateRevision: d.past()}
	case etcdserverpb.Compare_MOD:
		c.TargetUnion = &etcdserverpb.Compare_ModRevision{ModRevision: d.past()}
	case etcdserverpb.Compare_VALUE:
		c.TargetUnion = &etcdserverpb.Compare_Value{Value: d.value()}
	case etcdserverpb.Compare_LEASE:
		c.TargetUnion = &etcdserverpb.Compare_Lease{Lease: d.leaseID()}
	}
	return c
}

func (d *differ) txnRequest(depth int) *etcdserverpb.TxnRequest {
	r := &etcdserverpb.TxnRequest{}
	for range d.random.IntN(3) {
		r.Compare = append(r.Compare, d.condition())
	}
	for range d.random.IntN(4) {
		r.Success = append(r.Success, d.operation(depth))
	}
	for range d.random.IntN(4) {
		r.Failure = append(r.Failure, d.operation(depth))
	}
	return r
}

func (d *differ) operation(depth int) *etcdserverpb.RequestOp {
	switch n := d.random.IntN(10); {
	case n < 4:
		return &etcdserverpb.RequestOp{Request: &etcdserverpb.RequestOp_RequestPut{RequestPut: d.putRequest()}}
	case n < 6:
		return &etcdserverpb.RequestOp{Request: &etcdserverpb.RequestOp_RequestDeleteRange{RequestDeleteRange: d.deleteRequest()}}
	case n < 8 && depth < 2:
		return &etcdserverpb.RequestOp{Request: &etcdserverpb.RequestOp_RequestTxn{RequestTxn: d.txnRequest(depth + 1)}}
	}
	return &etcdserverpb.RequestOp{Request: &etcdserverpb.RequestOp_RequestRange{RequestRange: d.rangeRequest()}}
}

// txn sends a transaction. Ours refuses each that would write a key twice; etcd refuses the ones that its check of the
// request finds, and does not get the others.
func (d *differ) txn() error {
	d.counts["txn"]++
	r := d.txnRequest(0)
	var responses [2]*etcdserverpb.TxnResponse
	var errs [2]error
	responses[1], errs[1] = d.sides[1].kv.Txn(d.ctx, r)
	if isDuplicate(errs[1]) {
		if _, err := d.sides[0].kv.Txn(d.ctx, dryRun(r)); !isDuplicate(err) {
			d.counts["txn skipped"]++
			return nil
		}
	}
	responses[0], errs[0] = d.sides[0].kv.Txn(d.ctx, r)
	response, ok, err := compare(d, "txn", r, responses, errs)
	if ok {
		d.revision = response.Header.Revision
	}
	return err
}

func isDuplicate(err error) bool {
	return status.Convert(err).Message() == status.Convert(rpctypes.ErrGRPCDuplicateKey).Message()
}

// dryRun returns a transaction that has r in a branch that is never taken, so that r is only checked.
func dryRun(r *etcdserverpb.TxnRequest) *etcdserverpb.TxnRequest {
	return &etcdserverpb.TxnRequest{
		Compare: []*etcdserverpb.Compare{{Key: []byte("never"), Target: etcdserverpb.Compare_VERSION, Result: etcdserverpb.Compare_LESS}},
		Success: []*etcdserverpb.RequestOp{{Request: &etcdserverpb.RequestOp_RequestTxn{RequestTxn: r}}},
	}
}

// compact compacts when all watches have caught up, since a watch that has not is canceled.
func (d *differ) compact() error {
	if err := d.sync(); err != nil {
		return err
	}
	r := &etcdserverpb.CompactionRequest{Revision: d.past(), Physical: true}
	_, ok, err := call(d, "compact", r, func(s *side, r *etcdserverpb.CompactionRequest) (*etcdserverpb.CompactionResponse, error) {
		return s.kv.Compact(d.ctx, r)
	})
	if ok {
		d.compacted = r.Revision
	}
	return err
}

// leaseID returns the ID of a lease, or of none.
func (d *differ) leaseID() int64 { return int64(d.random.IntN(4)) }

func (d *differ) changeLease() error {
	id := d.leaseID()
	switch d.random.IntN(6) {
	case 0, 1:
		if id == 0 {
			return nil // the server would choose an ID
		}
		r := &etcdserverpb.LeaseGrantRequest{ID: id, TTL: []int64{1000, 2000, 9_000_000_001}[d.random.IntN(3)]}
		_, _, err := call(d, "grant", r, func(s *side, r *etcdserverpb.LeaseGrantRequest) (*etcdserverpb.LeaseGrantResponse, error) {
			return s.lease.LeaseGrant(d.ctx, r)
		})
		return err
	case 2:
		response, ok, err := call(d, "revoke", &etcdserverpb.LeaseRevokeRequest{ID: id}, func(s *side, r *etcdserverpb.LeaseRevokeRequest) (*etcdserverpb.LeaseRevokeResponse, error) {
			return s.lease.LeaseRevoke(d.ctx, r)
		})
		if ok {
			d.revision = response.Header.Revision
		}
		return err
	case 3:
		_, _, err := call(d, "leases", &etcdserverpb.LeaseLeasesRequest{}, func(s *side, r *etcdserverpb.LeaseLeasesRequest) (*etcdserverpb.LeaseLeasesResponse, error) {
			return s.lease.LeaseLeases(d.ctx, r)
		})
		return err
	case 4:
		_, _, err := call(d, "keepalive", &etcdserverpb.LeaseKeepAliveRequest{ID: id}, func(s *side, r *etcdserverpb.LeaseKeepAliveRequest) (*etcdserverpb.LeaseKeepAliveResponse, error) {
			ctx, cancel := context.WithCancel(d.ctx)
			defer cancel()
			stream, err := s.lease.LeaseKeepAlive(ctx)
			if err == nil {
				err = stream.Send(r)
			}
			if err != nil {
				return nil, err
			}
			return stream.Recv()
		})
		return err
	}
	_, _, err := call(d, "time to live", &etcdserverpb.LeaseTimeToLiveRequest{ID: id, Keys: true}, func(s *side, r *etcdserverpb.LeaseTimeToLiveRequest) (*etcdserverpb.LeaseTimeToLiveResponse, error) {
		return s.lease.LeaseTimeToLive(d.ctx, r)
	})
	return err
}

// watchPair is a watch on both sides.
type watchPair struct {
	request *etcdserverpb.WatchCreateRequest
	cancel  context.CancelFunc
	sides   [2]watched
}

// watched is a watch on one side.
type watched struct {
	stream    etcdserverpb.Watch_WatchClient
	responses chan *etcdserverpb.WatchResponse // closed when the stream has ended
	history   []string                         // the events, and then the end of the watch
	ended     bool
}

// open opens a stream on both sides, which sends the requests, and reads the responses in the background.
func (d *differ) open(requests ...*etcdserverpb.WatchCreateRequest) (*watchPair, error) {
	ctx, cancel := context.WithCancel(d.ctx)
	d.t.Cleanup(cancel)
	w := &watchPair{request: requests[0], cancel: cancel}
	for i, s := range d.sides {
		stream, err := s.watch.Watch(ctx)
		if err != nil {
			return nil, err
		}
		for _, r := range requests {
			request := &etcdserverpb.WatchRequest{RequestUnion: &etcdserverpb.WatchRequest_CreateRequest{CreateRequest: proto.Clone(r).(*etcdserverpb.WatchCreateRequest)}}
			if err := stream.Send(request); err != nil {
				return nil, err
			}
		}
		responses := make(chan *etcdserverpb.WatchResponse)
		w.sides[i] = watched{stream: stream, responses: responses}
		go func() {
			defer close(responses)
			for {
				r, err := stream.Recv()
				if err != nil {
					return
				}
				select {
				case responses <- r:
				case <-ctx.Done():
					return
				}
			}
		}()
	}
	return w, nil
}

// createWatch creates a watch, and compares the responses. In some cases it only compares the IDs of several watches.
func (d *differ) createWatch() error {
	d.counts["watch"]++
	if d.chance(4) {
		return d.createWatches()
	}
	if len(d.watches) > 8 {
		i := d.random.IntN(len(d.watches))
		d.watches[i].cancel()
		d.watches = slices.Delete(d.watches, i, i+1)
	}
	key, end := d.keys()
	r := &etcdserverpb.WatchCreateRequest{
		Key: key, RangeEnd: end, StartRevision: d.past(), PrevKv: d.chance(2), Fragment: d.chance(3), ProgressNotify: d.chance(3),
		WatchId: int64(d.random.IntN(3)),
	}
	if d.chance(6) {
		r.Filters = append(r.Filters, etcdserverpb.WatchCreateRequest_FilterType(d.random.IntN(2)))
	}
	w, err := d.open(r)
	if err != nil {
		return err
	}
	canceled, err := d.compareCreated(w, 1)
	if canceled || err != nil {
		w.cancel()
		return err
	}
	d.watches = append(d.watches, w)
	return nil
}

// createWatches creates watches with equal and different IDs in one stream.
func (d *differ) createWatches() error {
	var requests []*etcdserverpb.WatchCreateRequest
	for range 4 {
		requests = append(requests, &etcdserverpb.WatchCreateRequest{Key: d.key(), WatchId: int64(d.random.IntN(4))})
	}
	w, err := d.open(requests...)
	if err != nil {
		return err
	}
	defer w.cancel()
	_, err = d.compareCreated(w, len(requests))
	return err
}

// compareCreated compares the responses to n requests to create a watch, and reports whether one is canceled.
func (d *differ) compareCreated(w *watchPair, n int) (canceled bool, err error) {
	var created [2]string
	for i := range w.sides {
		for range n {
			r, ok := <-w.sides[i].responses
			if !ok {
				return false, errors.New(d.sides[i].name + " has ended the stream")
			}
			normalize(r)
			canceled = canceled || r.Canceled
			created[i] += fmt.Sprintf("%v; ", r)
		}
	}
	// The text of a message has random spaces.
	if a, b := strings.Join(strings.Fields(created[0]), " "), strings.Join(strings.Fields(created[1]), " "); a != b {
		return false, fmt.Errorf("the creation of the watch %v:\netcd: %s\nours: %s", w.request, a, b)
	}
	return canceled, nil
}

// sync brings all watches up to date, and compares their histories. A watch of the future has no progress yet.
func (d *differ) sync() error {
	d.counts["sync"]++
	for _, w := range slices.Clone(d.watches) {
		if w.request.StartRevision > d.revision {
			continue
		}
		for i := range w.sides {
			if err := w.sides[i].catchUp(d.revision); err != nil {
				return fmt.Errorf("%s: the watch %v: %w", d.sides[i].name, w.request, err)
			}
		}
		if etcd, ours := w.sides[0].history, w.sides[1].history; !slices.Equal(etcd, ours) {
			return fmt.Errorf("the events of the watch %v:\netcd: %q\nours: %q", w.request, etcd, ours)
		}
		d.counts["events"] += len(w.sides[0].history)
		w.sides[0].history, w.sides[1].history = nil, nil
		if w.sides[0].ended {
			w.cancel()
			d.watches = slices.DeleteFunc(d.watches, func(other *watchPair) bool { return other == w })
		}
	}
	return nil
}

// catchUp reads events until the watch has ended or the server says that there are none up to a revision. etcd does not
// answer while a watch lags, so catchUp asks again.
func (w *watched) catchUp(revision int64) error {
	for !w.ended {
		request := &etcdserverpb.WatchRequest{RequestUnion: &etcdserverpb.WatchRequest_ProgressRequest{ProgressRequest: &etcdserverpb.WatchProgressRequest{}}}
		if err := w.stream.Send(request); err != nil {
			return err
		}
		for again := time.After(50 * time.Millisecond); again != nil && !w.ended; {
			select {
			case r, ok := <-w.responses:
				switch {
				case !ok:
					return errors.New("the stream has ended")
				case r.WatchId == -1 && r.Header.Revision >= revision:
					return nil
				}
				w.note(r)
			case <-again:
				again = nil
			}
		}
	}
	return nil
}

// note adds a response to the history.
func (w *watched) note(r *etcdserverpb.WatchResponse) {
	for _, e := range r.Events {
		w.history = append(w.history, describeEvent(e))
	}
	if r.Canceled {
		w.ended = true
		w.history = append(w.history, fmt.Sprintf("canceled %d %d %q", r.WatchId, r.CompactRevision, r.CancelReason))
	}
}

func describeEvent(e *mvccpb.Event) string {
	text := fmt.Sprintf("%v %s=%s %d %d %d %d", e.Type, e.Kv.Key, e.Kv.Value, e.Kv.CreateRevision, e.Kv.ModRevision, e.Kv.Version, e.Kv.Lease)
	if p := e.PrevKv; p != nil {
		text += fmt.Sprintf(" was %s %d %d %d %d", p.Value, p.CreateRevision, p.ModRevision, p.Version, p.Lease)
	}
	return text
}
