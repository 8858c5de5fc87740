package etcd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"flyball.dev/internal/reserve/reservetest"
	"flyball.dev/storage"
	"flyball.dev/storage/etcd"
	"flyball.dev/storage/memory"
)

const (
	servers  = 2
	writers  = 16
	watchers = 100
	counters = 8
)

// TestMembers lets writers on two servers increment counters, while members of the cluster are killed, paused and cut off
// in turn. The history of the reads and writes is linearizable, no acknowledged increment is lost, and every watcher on
// both servers gets every event once and in order.
func TestMembers(t *testing.T) {
	c := startCluster(t, 3, behindProxies)
	var stores []*etcd.Store
	for range servers {
		s := open(t, c, etcd.Options{})
		defer s.Close()
		stores = append(stores, s)
	}
	ctx := t.Context()

	var watching sync.WaitGroup
	stop := make(chan uint64) // closed with the last revision in last
	var last uint64
	seen := make([][]string, watchers)
	for i := range watchers {
		w, err := stores[i%servers].Watch(ctx, "/registry/", 0)
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		watching.Go(func() { seen[i] = collect(t, w, stop, &last) })
	}

	var writing sync.WaitGroup
	h := &history{start: time.Now(), enough: make(chan struct{})}
	faults := make(chan struct{})
	for i := range writers {
		writing.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-faults:
					return
				default:
					h.increment(ctx, stores[i%servers], i, fmt.Sprintf("/registry/count/%d", (i+n)%counters))
				}
			}
		})
	}
	disturb(c)
	<-h.enough
	close(faults)
	writing.Wait()

	for i, s := range stores {
		page, err := s.Range(ctx, storage.Query{Path: "/registry/count/"})
		if err != nil {
			t.Fatal(err)
		}
		last = page.Revision
		total := 0
		for _, r := range page.Records {
			total += count(string(r.Value()))
		}
		if total < h.acknowledged || total > h.acknowledged+h.unknown {
			t.Errorf("server %d has counted to %d; %d increments were acknowledged, and %d may have taken place", i, total, h.acknowledged, h.unknown)
		}
	}
	t.Logf("%d increments were acknowledged, %d may have taken place, %d operations", h.acknowledged, h.unknown, len(h.operations))
	if !porcupine.CheckOperations(counting, h.operations) {
		t.Error("the history is not linearizable")
	}
	close(stop)
	watching.Wait()
	for i := range seen {
		if !slices.Equal(seen[i], seen[0]) {
			t.Errorf("watcher %d has %d events, and watcher 0 has %d", i, len(seen[i]), len(seen[0]))
		}
	}
	if len(seen[0]) < h.acknowledged {
		t.Errorf("the watchers have %d events of %d", len(seen[0]), h.acknowledged)
	}
}

// disturb kills, pauses and cuts off one member after the other.
func disturb(c *cluster) {
	for _, m := range c.members {
		<-time.After(500 * time.Millisecond)
		c.kill(m)
		<-time.After(500 * time.Millisecond)
		c.start(m)
		c.await(m)
	}
	for _, m := range c.members {
		<-time.After(300 * time.Millisecond)
		c.pause(m)
		<-time.After(time.Second)
		c.resume(m)
		c.await(m)
	}
	for _, m := range c.members {
		<-time.After(300 * time.Millisecond)
		c.cut(m, true)
		<-time.After(time.Second)
		c.cut(m, false)
	}
}

// history has the operations of all writers.
type history struct {
	start  time.Time
	enough chan struct{} // closed when 50 increments are acknowledged; nil if nobody waits

	mu                    sync.Mutex
	operations            []porcupine.Operation
	acknowledged, unknown int
}

// request is a read of a counter, or a write on the condition that it has a value.
type request struct {
	key      string
	write    bool
	from, to string
}

// The results of a write. The result of a read is the value.
const (
	written  = "written"
	conflict = "conflict"
	unknown  = "unknown"
)

// counting is the model: each counter has a value, at first none. The values of a counter are all different, because they have
// the name of their writer.
var counting = (&porcupine.NondeterministicModel{
	Partition: func(all []porcupine.Operation) [][]porcupine.Operation {
		byKey := map[string][]porcupine.Operation{}
		for _, o := range all {
			key := o.Input.(request).key
			byKey[key] = append(byKey[key], o)
		}
		return slices.Collect(maps.Values(byKey))
	},
	Init: func() []any { return []any{""} },
	Step: func(state, input, output any) []any {
		r := input.(request)
		switch {
		case !r.write && state == output, r.write && output == conflict && state != r.from:
			return []any{state}
		case r.write && output == written && state == r.from:
			return []any{r.to}
		case output == unknown && state == r.from:
			return []any{state, r.to}
		case output == unknown:
			return []any{state}
		}
		return nil
	},
}).ToModel()

// note adds an operation. The end of a write with an unknown result is not known either.
func (h *history) note(writer int, r request, began time.Duration, output string) {
	o := porcupine.Operation{ClientId: writer, Input: r, Call: int64(began), Output: output, Return: int64(time.Since(h.start))}
	h.mu.Lock()
	defer h.mu.Unlock()
	switch output {
	case written:
		if h.acknowledged++; h.acknowledged == 50 && h.enough != nil {
			close(h.enough)
		}
	case unknown:
		h.unknown++
		o.Return = math.MaxInt64
	}
	h.operations = append(h.operations, o)
}

// count returns the number in a value, which ends with the name of its writer.
func count(value string) int {
	number, _, _ := strings.Cut(value, " ")
	n, _ := strconv.Atoi(number)
	return n
}

// increment reads a counter and increments it.
func (h *history) increment(ctx context.Context, s storage.Store, writer int, key string) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	began := time.Since(h.start)
	current, err := s.Get(ctx, key)
	value, revision := "", storage.Absent
	switch {
	case err == nil:
		value, revision = string(current.Value()), current.Revision
	case !errors.Is(err, storage.ErrNotFound):
		return
	}
	h.note(writer, request{key: key}, began, value)
	r := request{key: key, write: true, from: value, to: fmt.Sprintf("%d by %d at %d", count(value)+1, writer, began)}
	began = time.Since(h.start)
	switch _, err := s.Put(ctx, storage.Write{Key: key, Value: []byte(r.to), If: revision}); {
	case err == nil:
		h.note(writer, r, began, written)
	case errors.Is(err, storage.ErrConflict):
		h.note(writer, r, began, conflict)
	default:
		h.note(writer, r, began, unknown)
	}
}

// stale is a store with reads that may be older than a write that was acknowledged before.
type stale struct {
	storage.Store
	mu   sync.Mutex
	kept map[string]*storage.Record
}

func (s *stale) Get(ctx context.Context, key string) (*storage.Record, error) {
	r, err := s.Store.Get(ctx, key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if kept := s.kept[key]; kept != nil && rand.IntN(20) == 0 {
		return kept, nil
	}
	s.kept[key] = r
	return r, err
}

// TestStaleReads requires that the model finds stale reads.
func TestStaleReads(t *testing.T) {
	s := &stale{Store: memory.New(memory.Options{}), kept: map[string]*storage.Record{}}
	defer s.Close()
	h := &history{start: time.Now()}
	for i := range 500 {
		h.increment(t.Context(), s, 0, fmt.Sprintf("/registry/count/%d", i%counters))
		h.increment(t.Context(), s.Store, 1, fmt.Sprintf("/registry/count/%d", i%counters))
	}
	if porcupine.CheckOperations(counting, h.operations) {
		t.Error("the history is linearizable")
	}
}

// collect returns the events of a watcher up to the last revision, which is set when stop is closed.
func collect(t testing.TB, w storage.Watcher, stop <-chan uint64, last *uint64) (all []string) {
	previous := uint64(0)
	stopping := false
	for {
		events, revision, err := w.Next()
		if err != nil {
			t.Errorf("Next: %v", err)
			return all
		}
		for _, e := range events {
			if e.Record.Revision < previous {
				t.Errorf("revision %d follows %d", e.Record.Revision, previous)
			}
			previous = e.Record.Revision
			all = append(all, fmt.Sprintf("%d %s=%s", e.Record.Revision, e.Record.Key, e.Record.Value()))
		}
		if stopping && revision >= *last {
			return all
		}
		if len(events) > 0 {
			continue
		}
		select {
		case <-w.Ready():
		case <-stop:
			stopping, stop = true, nil
		}
	}
}

// proxy forwards connections to a member of a cluster, until it is cut.
type proxy struct {
	url      string
	listener net.Listener
	target   string
	group    sync.WaitGroup

	mu    sync.Mutex
	isCut bool
	open  map[net.Conn]bool
}

func startProxy(t testing.TB, target string) *proxy {
	t.Helper()
	u, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{url: "http://" + l.Addr().String(), listener: l, target: u.Host, open: map[net.Conn]bool{}}
	p.group.Go(p.run)
	t.Cleanup(func() {
		l.Close()
		p.cut(true)
		p.group.Wait()
	})
	return p
}

func (p *proxy) run() {
	for {
		in, err := p.listener.Accept()
		if err != nil {
			return
		}
		out, err := net.Dial("tcp", p.target)
		if err != nil {
			in.Close()
			continue
		}
		p.mu.Lock()
		if p.isCut {
			in.Close()
			out.Close()
		} else {
			p.open[in], p.open[out] = true, true
		}
		p.mu.Unlock()
		for _, pair := range [][2]net.Conn{{in, out}, {out, in}} {
			p.group.Go(func() {
				io.Copy(pair[0], pair[1])
				pair[0].Close()
				pair[1].Close()
				p.mu.Lock()
				delete(p.open, pair[0])
				p.mu.Unlock()
			})
		}
	}
}

// cut closes all connections, and refuses new ones until it is called with false.
func (p *proxy) cut(is bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.isCut = is; is {
		for c := range p.open {
			c.Close()
		}
	}
}

// TestReadsOfOthersWrites reads each write of another store as soon as it is acknowledged.
func TestReadsOfOthersWrites(t *testing.T) {
	c := startCluster(t, 1)
	s, other := open(t, c, etcd.Options{}), open(t, c, etcd.Options{})
	defer s.Close()
	defer other.Close()
	ctx := t.Context()
	for i := range 2000 {
		r, err := other.Put(ctx, storage.Write{Key: "/registry/a", Value: []byte(strconv.Itoa(i)), If: storage.Any})
		if err != nil {
			t.Fatal(err)
		}
		got, err := s.Get(ctx, "/registry/a")
		if err != nil {
			t.Fatal(err)
		}
		if got.Revision < r.Revision {
			t.Fatalf("after the write at revision %d, a read has revision %d", r.Revision, got.Revision)
		}
	}
}

// TestMissedEvents cuts a store off while others write and compact. The store then loads all records again, its old
// watchers have to begin anew, and its reads are never stale.
func TestMissedEvents(t *testing.T) {
	c := startCluster(t, 1)
	p := startProxy(t, c.members[0].url)
	other := open(t, c, etcd.Options{})
	defer other.Close()
	s, err := etcd.Open(t.Context(), etcd.Options{Endpoints: []string{p.url}, Logf: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ctx := t.Context()
	if _, err := s.Put(ctx, storage.Write{Key: "/registry/a", Value: []byte("1")}); err != nil {
		t.Fatal(err)
	}
	w, err := s.Watch(ctx, "/registry/", 0)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()

	p.cut(true)
	var latest uint64
	for i := range 20 {
		r, err := other.Put(ctx, storage.Write{Key: "/registry/a", Value: []byte(strconv.Itoa(i)), If: storage.Any})
		if err != nil {
			t.Fatal(err)
		}
		latest = r.Revision
	}
	if _, err := other.Delete(ctx, "/registry/a", storage.Any); err != nil {
		t.Fatal(err)
	}
	if _, err := other.Put(ctx, storage.Write{Key: "/registry/b", Value: []byte("new")}); err != nil {
		t.Fatal(err)
	}
	if err := other.Compact(ctx, latest); err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	if r, err := s.Get(short, "/registry/a"); err == nil {
		t.Errorf("a store that is cut off answers %s", r.Value())
	}
	cancel()
	p.cut(false)

	if r, err := s.Get(ctx, "/registry/b"); err != nil || string(r.Value()) != "new" {
		t.Errorf("the new record is %+v, %v", r, err)
	}
	if _, err := s.Get(ctx, "/registry/a"); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("the deleted record: %v", err)
	}
	<-w.Ready()
	if _, _, err := w.Next(); !errors.Is(err, storage.ErrCompacted) {
		t.Errorf("the watcher that has missed events: %v", err)
	}
	if r, err := s.Put(ctx, storage.Write{Key: "/registry/c"}); err != nil || r.Revision <= latest {
		t.Errorf("a write afterwards: %+v, %v", r, err)
	}
}

// TestForeignKeys: keys of other programs advance the revision, and are not seen otherwise.
func TestForeignKeys(t *testing.T) {
	c := startCluster(t, 1)
	client, err := clientv3.New(clientv3.Config{Endpoints: c.endpoints(), Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx := t.Context()
	if _, err := client.Put(ctx, "other/1", "x"); err != nil {
		t.Fatal(err)
	}
	s := open(t, c, etcd.Options{Prefixes: []etcd.Prefix{{Store: "/registry/", Cluster: "/registry/"}, {Store: "/flyball/", Cluster: "/flyball/"}}})
	defer s.Close()
	w, err := s.Watch(ctx, "", 0)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	put, err := client.Put(ctx, "other/2", "x")
	if err != nil {
		t.Fatal(err)
	}
	page, err := s.Range(ctx, storage.Query{})
	if err != nil || len(page.Records) != 0 || page.Revision != uint64(put.Header.Revision) {
		t.Errorf("there are %d records at revision %d, %v; want none at %d", len(page.Records), page.Revision, err, put.Header.Revision)
	}
	if _, err := client.Txn(ctx).Then(clientv3.OpPut("other/1", "y"), clientv3.OpPut("/registry/a", "1"), clientv3.OpPut("/flyball/b", "2")).Commit(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Get(ctx, "/flyball/b"); err != nil {
		t.Error(err)
	}
	events, revision, err := w.Next()
	if err != nil || len(events) != 2 || revision != page.Revision+1 {
		t.Errorf("the watcher has %d events up to revision %d, %v", len(events), revision, err)
	}
}

// TestOpenErrors opens stores that cannot be opened. The error says why.
func TestOpenErrors(t *testing.T) {
	c := startCluster(t, 1)
	closed := "http://" + reservetest.Address(t)
	for endpoint, want := range map[string]string{
		closed:     closed + ": dial tcp",
		"nonsense": `the etcd endpoint "nonsense" is not a URL`,
		strings.Replace(c.members[0].url, "http:", "https:", 1): "etcd cannot be reached: https://",
	} {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		s, err := etcd.Open(ctx, etcd.Options{Endpoints: []string{endpoint}})
		cancel()
		if err == nil {
			s.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want an error with %q", endpoint, err, want)
		}
	}
}
