package etcdserver_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"flyball.dev/storage/etcdserver"
	"flyball.dev/storage/memory"
)

// stream is a stream of watches.
type stream struct {
	t *testing.T
	etcdserverpb.Watch_WatchClient
}

func (s *served) watch(t *testing.T) *stream {
	t.Helper()
	w, err := etcdserverpb.NewWatchClient(s).Watch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return &stream{t, w}
}

// create creates a watch, and returns the response.
func (s *stream) create(r *etcdserverpb.WatchCreateRequest) *etcdserverpb.WatchResponse {
	s.t.Helper()
	s.request(&etcdserverpb.WatchRequest{RequestUnion: &etcdserverpb.WatchRequest_CreateRequest{CreateRequest: r}})
	response := s.receive()
	if !response.Created {
		s.t.Fatalf("instead of a creation: %v", response)
	}
	return response
}

func (s *stream) request(r *etcdserverpb.WatchRequest) {
	s.t.Helper()
	if err := s.Send(r); err != nil {
		s.t.Fatal(err)
	}
}

func (s *stream) progress() {
	s.t.Helper()
	s.request(&etcdserverpb.WatchRequest{RequestUnion: &etcdserverpb.WatchRequest_ProgressRequest{ProgressRequest: &etcdserverpb.WatchProgressRequest{}}})
}

func (s *stream) receive() *etcdserverpb.WatchResponse {
	s.t.Helper()
	r, err := s.Recv()
	if err != nil {
		s.t.Fatal(err)
	}
	return r
}

// events receives n events.
func (s *stream) events(n int) (events []string) {
	s.t.Helper()
	for len(events) < n {
		for _, e := range s.receive().Events {
			events = append(events, event(e))
		}
	}
	return events
}

// event describes an event.
func event(e *mvccpb.Event) string {
	if e.Type == mvccpb.Event_DELETE {
		return fmt.Sprintf("delete %s at %d, was %s", e.Kv.Key, e.Kv.ModRevision, pair(e.PrevKv))
	}
	return fmt.Sprintf("put %s, was %s", pair(e.Kv), pair(e.PrevKv))
}

// until receives responses up to a progress notification of all watches, and returns the events by watch.
func (s *stream) until(revision int64) map[int64][]string {
	s.t.Helper()
	got := map[int64][]string{}
	for {
		r := s.receive()
		if r.WatchId == -1 {
			if r.Header.Revision != revision || len(r.Events) > 0 {
				s.t.Errorf("the progress is %v, want revision %d", r, revision)
			}
			return got
		}
		for _, e := range r.Events {
			got[r.WatchId] = append(got[r.WatchId], event(e))
		}
	}
}

// TestWatch watches keys, ranges and prefixes, from now, the past and the future.
func TestWatch(t *testing.T) {
	onStores(t, func(t *testing.T, s *served) {
		s.put(t, "b/", "0") // 2
		b := func(s string) []byte { return []byte(s) }
		noPut, noDelete := etcdserverpb.WatchCreateRequest_NOPUT, etcdserverpb.WatchCreateRequest_NODELETE
		const (
			old   = "put b/=0 2 2 1, was none"
			one   = "put b/=1 2 3 2, was none"
			x     = "put b/x=1 4 4 1, was none"
			gone  = "delete b/ at 5, was none"
			a     = "put a=1 5 5 1, was none"
			oneP  = "put b/=1 2 3 2, was b/=0 2 2 1"
			goneP = "delete b/ at 5, was b/=1 2 3 2"
		)
		w := s.watch(t)
		want := map[int64][]string{}
		for i, test := range []struct {
			r    *etcdserverpb.WatchCreateRequest
			want []string
		}{
			{&etcdserverpb.WatchCreateRequest{Key: b("b/")}, []string{one, gone}},
			{&etcdserverpb.WatchCreateRequest{Key: b("b/"), RangeEnd: b("b0"), PrevKv: true}, []string{oneP, x, goneP}},
			{&etcdserverpb.WatchCreateRequest{Key: b("a"), RangeEnd: b("b/x")}, []string{one, gone, a}},
			{&etcdserverpb.WatchCreateRequest{RangeEnd: []byte{0}}, []string{one, x, gone, a}},
			{&etcdserverpb.WatchCreateRequest{Key: b("b/"), RangeEnd: b("b0"), Filters: []etcdserverpb.WatchCreateRequest_FilterType{noPut}}, []string{gone}},
			{&etcdserverpb.WatchCreateRequest{Key: b("b/"), RangeEnd: b("b0"), Filters: []etcdserverpb.WatchCreateRequest_FilterType{noDelete}}, []string{one, x}},
			{&etcdserverpb.WatchCreateRequest{Key: b("b/"), StartRevision: 1}, []string{old, one, gone}},
			{&etcdserverpb.WatchCreateRequest{Key: b("b/"), StartRevision: 2}, []string{old, one, gone}},
			{&etcdserverpb.WatchCreateRequest{RangeEnd: []byte{0}, StartRevision: 4}, []string{x, gone, a}},
			{&etcdserverpb.WatchCreateRequest{Key: b("b/x/"), RangeEnd: b("b/x0")}, nil},
		} {
			id := int64(i + 1)
			if test.r.WatchId = id; test.want != nil {
				want[id] = test.want
			}
			w.request(&etcdserverpb.WatchRequest{RequestUnion: &etcdserverpb.WatchRequest_CreateRequest{CreateRequest: test.r}})
			for created := false; !created; {
				r := w.receive()
				if created = r.Created; created && (r.WatchId != id || r.Header.Revision != 2 || r.Canceled) {
					t.Errorf("created %v", r)
				}
			}
			if test.r.StartRevision == 1 || test.r.StartRevision == 2 {
				if got := w.events(1); !slices.Equal(got, []string{old}) {
					t.Errorf("the event of the past is %q", got)
				}
				want[id] = test.want[1:]
			}
		}
		s.put(t, "b/", "1")  // 3
		s.put(t, "b/x", "1") // 4
		s.txn(t, &etcdserverpb.TxnRequest{Success: []*etcdserverpb.RequestOp{deleteOp("b/", ""), putOp("a", "1")}})
		w.progress()
		if got := w.until(5); !reflect.DeepEqual(got, want) {
			t.Errorf("got  %v\nwant %v", got, want)
		}
	})
}

// TestRefusedWatches creates watches that cannot be, and cancels one.
func TestRefusedWatches(t *testing.T) {
	onStores(t, func(t *testing.T, s *served) {
		for range 5 {
			s.put(t, "a", "1")
		}
		if _, err := s.kv.Compact(t.Context(), &etcdserverpb.CompactionRequest{Revision: 4}); err != nil {
			t.Fatal(err)
		}
		w := s.watch(t)
		if r := w.create(&etcdserverpb.WatchCreateRequest{Key: []byte("a"), WatchId: 7}); r.WatchId != 7 {
			t.Errorf("created %v", r)
		}
		for reason, r := range map[string]*etcdserverpb.WatchCreateRequest{
			"mvcc: duplicate watch ID provided on the WatchStream":   {Key: []byte("a"), WatchId: 7},
			"mvcc: watcher range is empty":                           {Key: []byte("b"), RangeEnd: []byte("a")},
			"etcdserver: mvcc: required revision has been compacted": {Key: []byte("a"), StartRevision: -1},
		} {
			if created := w.create(r); !created.Canceled || created.CancelReason != reason || created.WatchId != -1 {
				t.Errorf("created %v, want %q", created, reason)
			}
		}
		if created := w.create(&etcdserverpb.WatchCreateRequest{Key: []byte("a"), StartRevision: 3}); created.Canceled || created.WatchId != 0 {
			t.Errorf("created %v", created)
		}
		if r := w.receive(); !r.Canceled || r.CompactRevision != 4 || r.WatchId != 0 || r.Header.Revision != 0 {
			t.Errorf("from a compacted revision: %v", r)
		}
		if created := w.create(&etcdserverpb.WatchCreateRequest{Key: []byte("a"), StartRevision: 4, PrevKv: true}); created.Canceled || created.WatchId != 1 {
			t.Errorf("created %v", created)
		}
		if got := w.events(3); got[0] != "put a=1 2 4 3, was none" || got[1] != "put a=1 2 5 4, was a=1 2 4 3" {
			t.Errorf("from the compact revision: %q", got)
		}
		cancel := func(id int64) {
			w.request(&etcdserverpb.WatchRequest{RequestUnion: &etcdserverpb.WatchRequest_CancelRequest{CancelRequest: &etcdserverpb.WatchCancelRequest{WatchId: id}}})
		}
		cancel(99) // has no response
		cancel(1)
		if r := w.receive(); !r.Canceled || r.WatchId != 1 || r.CompactRevision != 0 {
			t.Errorf("the response to the request to cancel is %v", r)
		}
		s.put(t, "a", "2")
		if r := w.receive(); r.WatchId != 7 || len(r.Events) != 1 {
			t.Errorf("the other watch got %v", r)
		}
		if created := w.create(&etcdserverpb.WatchCreateRequest{Key: []byte("a"), StartRevision: 100}); created.Canceled {
			t.Errorf("created %v", created)
		}
		w.progress() // has no response while a watch is in the future
		cancel(2)
		if r := w.receive(); !r.Canceled || r.WatchId != 2 {
			t.Errorf("instead of the end of the watch of the future: %v", r)
		}
	})
}

// TestFragments watches events of one revision that are larger than a message should be.
func TestFragments(t *testing.T) {
	onStores(t, func(t *testing.T, s *served) {
		w := s.watch(t)
		w.create(&etcdserverpb.WatchCreateRequest{RangeEnd: []byte{0}, PrevKv: true, Fragment: true})
		for _, value := range []string{"x", "y"} {
			var ops []*etcdserverpb.RequestOp
			for i := range 14 {
				ops = append(ops, putOp(fmt.Sprintf("k%02d", i), strings.Repeat(value, 100<<10)))
			}
			s.txn(t, &etcdserverpb.TxnRequest{Success: ops})
		}
		var parts []string
		for keys := 0; keys < 28; {
			r := w.receive()
			if r.Header.Revision != 2 && r.Header.Revision != 3 {
				t.Errorf("a part is at revision %d", r.Header.Revision)
			}
			keys += len(r.Events)
			parts = append(parts, fmt.Sprint(len(r.Events), " ", r.Fragment))
		}
		if last := parts[len(parts)-1]; len(parts) < 3 || !strings.HasSuffix(last, "false") || !strings.HasSuffix(parts[len(parts)-2], "true") {
			t.Errorf("the parts are %q", parts)
		}
	})
}

// TestProgressNotify waits for responses without events.
func TestProgressNotify(t *testing.T) {
	s := serve(t, etcdserver.Options{Store: memory.New(memory.Options{}), ProgressInterval: 10 * time.Millisecond})
	w := s.watch(t)
	w.create(&etcdserverpb.WatchCreateRequest{Key: []byte("a")})
	created := w.create(&etcdserverpb.WatchCreateRequest{Key: []byte("b"), ProgressNotify: true})
	if r := w.receive(); r.WatchId != created.WatchId || len(r.Events) != 0 || r.Header.Revision != 1 {
		t.Errorf("the progress is %v", r)
	}
	s.put(t, "c", "")
	for {
		r := w.receive()
		if r.WatchId != created.WatchId || len(r.Events) != 0 {
			t.Fatalf("the progress is %v", r)
		}
		if r.Header.Revision == 2 {
			break
		}
	}
}
