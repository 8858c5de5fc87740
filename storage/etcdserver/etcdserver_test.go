package etcdserver_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"flyball.dev/storage/datadir"
	"flyball.dev/storage/etcdserver"
	"flyball.dev/storage/etcdserver/etcdservertest"
	"flyball.dev/storage/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// served is a server and a connection to it.
type served struct {
	*grpc.ClientConn
	store etcdserver.Store
	kv    etcdserverpb.KVClient
}

// serve serves a store until the test ends.
func serve(t *testing.T, o etcdserver.Options) *served {
	t.Helper()
	conn, err := grpc.NewClient(etcdservertest.Serve(t, o), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return &served{conn, o.Store, etcdserverpb.NewKVClient(conn)}
}

// onStores runs a test with a server of each store.
func onStores(t *testing.T, test func(*testing.T, *served)) {
	t.Run("memory", func(t *testing.T) {
		test(t, serve(t, etcdserver.Options{Store: memory.New(memory.Options{})}))
	})
	t.Run("datadir", func(t *testing.T) {
		store, err := datadir.Open(t.TempDir(), datadir.Options{})
		if err != nil {
			t.Fatal(err)
		}
		test(t, serve(t, etcdserver.Options{Store: store}))
	})
}

// put writes a key and returns the revision.
func (s *served) put(t *testing.T, key, value string) int64 {
	t.Helper()
	r, err := s.kv.Put(t.Context(), &etcdserverpb.PutRequest{Key: []byte(key), Value: []byte(value)})
	if err != nil {
		t.Fatal(err)
	}
	return r.Header.Revision
}

func (s *served) txn(t *testing.T, r *etcdserverpb.TxnRequest) *etcdserverpb.TxnResponse {
	t.Helper()
	response, err := s.kv.Txn(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return response
}

// pair describes a pair: key=value, the create revision, the mod revision, the version.
func pair(kv *mvccpb.KeyValue) string {
	if kv == nil {
		return "none"
	}
	s := fmt.Sprintf("%s=%s %d %d %d", kv.Key, kv.Value, kv.CreateRevision, kv.ModRevision, kv.Version)
	if kv.Lease != 0 {
		s += fmt.Sprintf(" lease %d", kv.Lease)
	}
	return s
}

func pairs(kvs []*mvccpb.KeyValue) string {
	var all []string
	for _, kv := range kvs {
		all = append(all, pair(kv))
	}
	return strings.Join(all, ", ")
}

func putOp(key, value string) *etcdserverpb.RequestOp {
	return &etcdserverpb.RequestOp{Request: &etcdserverpb.RequestOp_RequestPut{
		RequestPut: &etcdserverpb.PutRequest{Key: []byte(key), Value: []byte(value), PrevKv: true},
	}}
}

func rangeOp(r *etcdserverpb.RangeRequest) *etcdserverpb.RequestOp {
	return &etcdserverpb.RequestOp{Request: &etcdserverpb.RequestOp_RequestRange{RequestRange: r}}
}

func deleteOp(key, end string) *etcdserverpb.RequestOp {
	return &etcdserverpb.RequestOp{Request: &etcdserverpb.RequestOp_RequestDeleteRange{
		RequestDeleteRange: &etcdserverpb.DeleteRangeRequest{Key: []byte(key), RangeEnd: []byte(end), PrevKv: true},
	}}
}

func txnOp(r *etcdserverpb.TxnRequest) *etcdserverpb.RequestOp {
	return &etcdserverpb.RequestOp{Request: &etcdserverpb.RequestOp_RequestTxn{RequestTxn: r}}
}

func version(key, end string, result etcdserverpb.Compare_CompareResult, n int64) *etcdserverpb.Compare {
	return &etcdserverpb.Compare{
		Key: []byte(key), RangeEnd: []byte(end), Result: result, Target: etcdserverpb.Compare_VERSION,
		TargetUnion: &etcdserverpb.Compare_Version{Version: n},
	}
}

// TestRange reads ranges with all options.
func TestRange(t *testing.T) {
	onStores(t, func(t *testing.T, s *served) {
		s.put(t, "a", "3")   // 2
		s.put(t, "b/", "1")  // 3
		s.put(t, "b/x", "2") // 4
		s.put(t, "a", "0")   // 5
		s.put(t, "c", "9")   // 6
		b := func(s string) []byte { return []byte(s) }
		const a, bs, bx, c = "a=0 2 5 2", "b/=1 3 3 1", "b/x=2 4 4 1", "c=9 6 6 1"
		all := func(r *etcdserverpb.RangeRequest) *etcdserverpb.RangeRequest {
			r.Key, r.RangeEnd = b("\x00"), b("\x00")
			return r
		}
		for name, test := range map[string]struct {
			r     *etcdserverpb.RangeRequest
			want  []string
			count int64
			more  bool
		}{
			"a key":                     {&etcdserverpb.RangeRequest{Key: b("a")}, []string{a}, 1, false},
			"a key with a slash":        {&etcdserverpb.RangeRequest{Key: b("b/")}, []string{bs}, 1, false},
			"no key":                    {&etcdserverpb.RangeRequest{Key: b("b")}, nil, 0, false},
			"a range":                   {&etcdserverpb.RangeRequest{Key: b("a"), RangeEnd: b("b/x")}, []string{a, bs}, 2, false},
			"a prefix":                  {&etcdserverpb.RangeRequest{Key: b("b/"), RangeEnd: b("b0")}, []string{bs, bx}, 2, false},
			"from a key":                {&etcdserverpb.RangeRequest{Key: b("b/x"), RangeEnd: b("\x00")}, []string{bx, c}, 2, false},
			"an empty range":            {&etcdserverpb.RangeRequest{Key: b("c"), RangeEnd: b("a")}, nil, 0, false},
			"all":                       {all(&etcdserverpb.RangeRequest{}), []string{a, bs, bx, c}, 4, false},
			"a limit":                   {all(&etcdserverpb.RangeRequest{Limit: 3}), []string{a, bs, bx}, 4, true},
			"a limit that is reached":   {all(&etcdserverpb.RangeRequest{Limit: 4}), []string{a, bs, bx, c}, 4, false},
			"a count":                   {all(&etcdserverpb.RangeRequest{CountOnly: true, Limit: 1}), nil, 4, false},
			"keys":                      {all(&etcdserverpb.RangeRequest{KeysOnly: true, Limit: 1}), []string{"a= 2 5 2"}, 4, true},
			"a revision":                {all(&etcdserverpb.RangeRequest{Revision: 3}), []string{"a=3 2 2 1", bs}, 2, false},
			"by value":                  {all(&etcdserverpb.RangeRequest{SortTarget: etcdserverpb.RangeRequest_VALUE}), []string{a, bs, bx, c}, 4, false},
			"by value, descending":      {all(&etcdserverpb.RangeRequest{SortTarget: etcdserverpb.RangeRequest_VALUE, SortOrder: etcdserverpb.RangeRequest_DESCEND, Limit: 2}), []string{c, bx}, 4, true},
			"by mod revision, no order": {all(&etcdserverpb.RangeRequest{SortTarget: etcdserverpb.RangeRequest_MOD, Limit: 1}), []string{bs}, 4, true},
			"by key, descending":        {all(&etcdserverpb.RangeRequest{SortOrder: etcdserverpb.RangeRequest_DESCEND}), []string{c, bx, bs, a}, 4, false},
			"by mod revision":           {all(&etcdserverpb.RangeRequest{SortTarget: etcdserverpb.RangeRequest_MOD, SortOrder: etcdserverpb.RangeRequest_ASCEND}), []string{bs, bx, a, c}, 4, false},
			"by version, descending":    {all(&etcdserverpb.RangeRequest{SortTarget: etcdserverpb.RangeRequest_VERSION, SortOrder: etcdserverpb.RangeRequest_DESCEND, Limit: 1}), []string{a}, 4, true},
			"by create revision":        {all(&etcdserverpb.RangeRequest{SortTarget: etcdserverpb.RangeRequest_CREATE, SortOrder: etcdserverpb.RangeRequest_DESCEND}), []string{c, bx, bs, a}, 4, false},
			"min mod revision":          {all(&etcdserverpb.RangeRequest{MinModRevision: 5, Limit: 1}), []string{a}, 4, true},
			"max mod revision":          {all(&etcdserverpb.RangeRequest{MaxModRevision: 4}), []string{bs, bx}, 4, false},
			"min create revision":       {all(&etcdserverpb.RangeRequest{MinCreateRevision: 4}), []string{bx, c}, 4, false},
			"max create revision":       {all(&etcdserverpb.RangeRequest{MaxCreateRevision: 2}), []string{a}, 4, false},
		} {
			got, err := s.kv.Range(t.Context(), test.r)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if pairs(got.Kvs) != strings.Join(test.want, ", ") || got.Count != test.count || got.More != test.more || got.Header.Revision != 6 {
				t.Errorf("%s: %s; %d, %v, revision %d", name, pairs(got.Kvs), got.Count, got.More, got.Header.Revision)
			}
			inside := s.txn(t, &etcdserverpb.TxnRequest{Success: []*etcdserverpb.RequestOp{rangeOp(test.r)}}).Responses[0].GetResponseRange()
			if pairs(inside.Kvs) != pairs(got.Kvs) || inside.Count != got.Count || inside.More != got.More || inside.Header.Revision != 6 {
				t.Errorf("%s, in a transaction: %s; %d, %v", name, pairs(inside.Kvs), inside.Count, inside.More)
			}
		}
	})
}

// TestErrors sends requests that etcd refuses.
func TestErrors(t *testing.T) {
	onStores(t, func(t *testing.T, s *served) {
		for range 5 {
			s.put(t, "a", "1")
		}
		if _, err := s.kv.Compact(t.Context(), &etcdserverpb.CompactionRequest{Revision: 4}); err != nil {
			t.Fatal(err)
		}
		key := []byte("a")
		rangeOf := func(r *etcdserverpb.RangeRequest) error {
			_, err := s.kv.Range(t.Context(), r)
			_, inside := s.kv.Txn(t.Context(), &etcdserverpb.TxnRequest{Success: []*etcdserverpb.RequestOp{rangeOp(r)}})
			if status.Convert(err).Message() != status.Convert(inside).Message() {
				t.Errorf("%v: %v, and in a transaction %v", r, err, inside)
			}
			return err
		}
		putOf := func(r *etcdserverpb.PutRequest) error {
			_, err := s.kv.Put(t.Context(), r)
			return err
		}
		txnOf := func(ops ...*etcdserverpb.RequestOp) error {
			_, err := s.kv.Txn(t.Context(), &etcdserverpb.TxnRequest{Success: ops})
			return err
		}
		deep := txnOp(&etcdserverpb.TxnRequest{Failure: []*etcdserverpb.RequestOp{putOp("a", "")}})
		for name, test := range map[string]struct{ got, want error }{
			"range without a key":       {rangeOf(&etcdserverpb.RangeRequest{}), rpctypes.ErrGRPCEmptyKey},
			"compacted":                 {rangeOf(&etcdserverpb.RangeRequest{Key: key, Revision: 3}), rpctypes.ErrGRPCCompacted},
			"the compacted revision":    {rangeOf(&etcdserverpb.RangeRequest{Key: key, Revision: 4}), nil},
			"future":                    {rangeOf(&etcdserverpb.RangeRequest{Key: key, Revision: 7}), rpctypes.ErrGRPCFutureRev},
			"an order":                  {rangeOf(&etcdserverpb.RangeRequest{Key: key, SortOrder: 3}), rpctypes.ErrGRPCInvalidSortOption},
			"a sort target":             {rangeOf(&etcdserverpb.RangeRequest{Key: key, SortTarget: 5}), rpctypes.ErrGRPCInvalidSortOption},
			"put without a key":         {putOf(&etcdserverpb.PutRequest{}), rpctypes.ErrGRPCEmptyKey},
			"a value that is ignored":   {putOf(&etcdserverpb.PutRequest{Key: key, Value: key, IgnoreValue: true}), rpctypes.ErrGRPCValueProvided},
			"a lease that is ignored":   {putOf(&etcdserverpb.PutRequest{Key: key, Lease: 1, IgnoreLease: true}), rpctypes.ErrGRPCLeaseProvided},
			"a lease that is not there": {putOf(&etcdserverpb.PutRequest{Key: key, Lease: 1}), rpctypes.ErrGRPCLeaseNotFound},
			"no value to keep":          {putOf(&etcdserverpb.PutRequest{Key: []byte("b"), IgnoreValue: true}), rpctypes.ErrGRPCKeyNotFound},
			"too large":                 {putOf(&etcdserverpb.PutRequest{Key: key, Value: make([]byte, 1536<<10)}), rpctypes.ErrGRPCRequestTooLarge},
			"the same key twice":        {txnOf(putOp("a", ""), putOp("a", "")), rpctypes.ErrGRPCDuplicateKey},
			"a deleted key":             {txnOf(putOp("a", ""), deleteOp("a", "b")), rpctypes.ErrGRPCDuplicateKey},
			"a key of a branch":         {txnOf(putOp("a", ""), deep), rpctypes.ErrGRPCDuplicateKey},
			"a key deleted inside":      {txnOf(putOp("a", ""), txnOp(&etcdserverpb.TxnRequest{Success: []*etcdserverpb.RequestOp{deleteOp("a", "b")}})), rpctypes.ErrGRPCDuplicateKey},
			"a key deleted from":        {txnOf(putOp("a", ""), deleteOp("a", "\x00")), rpctypes.ErrGRPCDuplicateKey},
			"too many":                  {txnOf(slices.Repeat([]*etcdserverpb.RequestOp{deleteOp("x", "")}, 129)...), rpctypes.ErrGRPCTooManyOps},
			"too many inside":           {txnOf(append(slices.Repeat([]*etcdserverpb.RequestOp{deleteOp("x", "")}, 127), deep)...), rpctypes.ErrGRPCTooManyOps},
			"an operation of no kind":   {txnOf(&etcdserverpb.RequestOp{}), rpctypes.ErrGRPCKeyNotFound},
		} {
			if status.Convert(test.got).String() != status.Convert(test.want).String() {
				t.Errorf("%s: %v, want %v", name, test.got, test.want)
			}
		}
		for revision, want := range map[int64]error{4: rpctypes.ErrGRPCCompacted, 7: rpctypes.ErrGRPCFutureRev} {
			if _, err := s.kv.Compact(t.Context(), &etcdserverpb.CompactionRequest{Revision: revision}); status.Convert(err).String() != status.Convert(want).String() {
				t.Errorf("compacting %d: %v", revision, err)
			}
		}
		if revision := s.put(t, "a", "1"); revision != 7 {
			t.Errorf("a refused request has written: revision %d", revision)
		}
	})
}

// TestTxn carries out a transaction in a transaction, which reads its own writes.
func TestTxn(t *testing.T) {
	onStores(t, func(t *testing.T, s *served) {
		s.put(t, "a", "1") // 2
		s.put(t, "b", "1") // 3
		everything := rangeOp(&etcdserverpb.RangeRequest{Key: []byte{0}, RangeEnd: []byte{0}})
		inner := &etcdserverpb.TxnRequest{
			Compare: []*etcdserverpb.Compare{version("a", "", etcdserverpb.Compare_GREATER, 1)}, // before the transaction, it is 1
			Success: []*etcdserverpb.RequestOp{putOp("never", "")},
			Failure: []*etcdserverpb.RequestOp{everything, deleteOp("b", "c"), putOp("d", "1")},
		}
		r := s.txn(t, &etcdserverpb.TxnRequest{
			Compare: []*etcdserverpb.Compare{version("a", "c", etcdserverpb.Compare_EQUAL, 1), version("z", "", etcdserverpb.Compare_EQUAL, 0)},
			Success: []*etcdserverpb.RequestOp{
				rangeOp(&etcdserverpb.RangeRequest{Key: []byte("a")}), putOp("a", "2"), txnOp(inner), everything,
				rangeOp(&etcdserverpb.RangeRequest{Key: []byte{0}, RangeEnd: []byte{0}, Revision: 2}),
			},
		})
		in := r.Responses[2].GetResponseTxn()
		got := []string{
			fmt.Sprintf("%v %d", r.Succeeded, r.Header.Revision),
			pairs(r.Responses[0].GetResponseRange().Kvs), fmt.Sprint(r.Responses[0].GetResponseRange().Header.Revision),
			pair(r.Responses[1].GetResponsePut().PrevKv), fmt.Sprint(r.Responses[1].GetResponsePut().Header.Revision),
			fmt.Sprint(in.Succeeded), pairs(in.Responses[0].GetResponseRange().Kvs),
			pairs(in.Responses[1].GetResponseDeleteRange().PrevKvs), pair(in.Responses[2].GetResponsePut().PrevKv),
			pairs(r.Responses[3].GetResponseRange().Kvs), pairs(r.Responses[4].GetResponseRange().Kvs),
		}
		want := []string{
			"true 4", "a=1 2 2 1", "3", "a=1 2 2 1", "4", "false", "a=2 2 4 2, b=1 3 3 1", "b=1 3 3 1", "none", "a=2 2 4 2, d=1 4 4 1", "a=1 2 2 1",
		}
		if !slices.Equal(got, want) {
			t.Errorf("got  %q\nwant %q", got, want)
		}
		after, err := s.kv.Range(t.Context(), &etcdserverpb.RangeRequest{Key: []byte{0}, RangeEnd: []byte{0}})
		if err != nil || pairs(after.Kvs) != want[9] {
			t.Errorf("afterwards %s, %v", pairs(after.Kvs), err)
		}
		r = s.txn(t, &etcdserverpb.TxnRequest{
			Compare: []*etcdserverpb.Compare{version("a", "z", etcdserverpb.Compare_EQUAL, 1)},
			Success: []*etcdserverpb.RequestOp{putOp("never", "")},
			Failure: []*etcdserverpb.RequestOp{deleteOp("y", "z")},
		})
		if r.Succeeded || r.Header.Revision != 4 || r.Responses[0].GetResponseDeleteRange().Deleted != 0 {
			t.Errorf("a transaction that changes nothing: %v", r)
		}
	})
}

// TestLargeDeletion deletes more keys at one revision than a transaction of the store may have writes.
func TestLargeDeletion(t *testing.T) {
	onStores(t, func(t *testing.T, s *served) {
		for i := range 300 {
			s.put(t, fmt.Sprintf("k%03d", i), "1")
		}
		r, err := s.kv.DeleteRange(t.Context(), &etcdserverpb.DeleteRangeRequest{Key: []byte("k"), RangeEnd: []byte("l"), PrevKv: true})
		if err != nil || r.Deleted != 300 || len(r.PrevKvs) != 300 || r.Header.Revision != 302 {
			t.Errorf("deleted %d at revision %d, %v", r.GetDeleted(), r.GetHeader().GetRevision(), err)
		}
	})
}

// TestStream reads a range in a stream of several responses.
func TestStream(t *testing.T) {
	onStores(t, func(t *testing.T, s *served) {
		value := strings.Repeat("x", 400<<10)
		for i := range 7 {
			s.put(t, fmt.Sprint("k", i), value)
		}
		stream, err := s.kv.RangeStream(t.Context(), &etcdserverpb.RangeRequest{Key: []byte("k"), RangeEnd: []byte("l"), Limit: 6})
		if err != nil {
			t.Fatal(err)
		}
		keys, parts := "", 0
		for ; ; parts++ {
			r, err := stream.Recv()
			if err != nil {
				t.Fatal(err)
			}
			for _, kv := range r.RangeResponse.Kvs {
				keys += string(kv.Key)
			}
			if h := r.RangeResponse.Header; h != nil {
				if h.Revision != 8 || r.RangeResponse.Count != 7 || !r.RangeResponse.More {
					t.Errorf("the last response is at revision %d, count %d, more %v", h.Revision, r.RangeResponse.Count, r.RangeResponse.More)
				}
				break
			}
		}
		if keys != "k0k1k2k3k4k5" || parts < 2 {
			t.Errorf("%s in %d parts", keys, parts+1)
		}
	})
}

// TestMaintenance calls the services that do not read or write keys.
func TestMaintenance(t *testing.T) {
	onStores(t, func(t *testing.T, s *served) {
		m := etcdserverpb.NewMaintenanceClient(s)
		s.put(t, "a", "1")
		before, err := m.HashKV(t.Context(), &etcdserverpb.HashKVRequest{})
		if err != nil || before.HashRevision != 2 {
			t.Errorf("HashKV: %v, %v", before, err)
		}
		s.put(t, "a", "2")
		again, err := m.HashKV(t.Context(), &etcdserverpb.HashKVRequest{Revision: 2})
		if err != nil || again.Hash != before.Hash || again.Header.Revision != 3 {
			t.Errorf("HashKV at revision 2: %v, %v", again, err)
		}
		if now, err := m.HashKV(t.Context(), &etcdserverpb.HashKVRequest{}); err != nil || now.Hash == before.Hash {
			t.Errorf("HashKV after a change: %v, %v", now, err)
		}
		st, err := m.Status(t.Context(), &etcdserverpb.StatusRequest{})
		if err != nil || st.Version != etcdserver.Version || st.Leader != st.Header.MemberId || st.DbSize != 2 || st.Header.Revision != 3 || len(st.Errors) != 0 {
			t.Errorf("Status: %v, %v", st, err)
		}
		if a, err := m.Alarm(t.Context(), &etcdserverpb.AlarmRequest{}); err != nil || len(a.Alarms) != 0 {
			t.Errorf("Alarm: %v, %v", a, err)
		}
		if _, err := m.Defragment(t.Context(), &etcdserverpb.DefragmentRequest{}); err != nil {
			t.Error(err)
		}
		members, err := etcdserverpb.NewClusterClient(s).MemberList(t.Context(), &etcdserverpb.MemberListRequest{})
		if err != nil || len(members.Members) != 1 || members.Members[0].ID != st.Header.MemberId {
			t.Errorf("MemberList: %v, %v", members, err)
		}
		if h, err := healthpb.NewHealthClient(s).Check(t.Context(), &healthpb.HealthCheckRequest{}); err != nil || h.Status != healthpb.HealthCheckResponse_SERVING {
			t.Errorf("health: %v, %v", h, err)
		}
	})
}
