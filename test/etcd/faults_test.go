package etcd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"flyball.dev/storage"
	"flyball.dev/storage/etcd"
)

const (
	servers  = 2
	writers  = 8
	watchers = 10
)

// TestMembers lets writers on two servers increment counters, while members of the cluster are killed and paused in turn.
// No acknowledged increment may be lost, and every watcher on both servers gets every event once and in order.
func TestMembers(t *testing.T) {
	c := startCluster(t, 3)
	var stores []*etcd.Store
	for range servers {
		s := open(t, c, etcd.Options{})
		defer s.Close()
		stores = append(stores, s)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()

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
	var counts [writers]counts
	faults := make(chan struct{})
	for i := range writers {
		writing.Go(func() {
			for {
				select {
				case <-faults:
					return
				default:
					counts[i].add(ctx, stores[i%servers], fmt.Sprintf("/registry/count/%d", i%4))
				}
			}
		})
	}
	disturb(c)
	close(faults)
	writing.Wait()

	acknowledged, unknown := 0, 0
	for i := range counts {
		acknowledged += counts[i].acknowledged
		unknown += counts[i].unknown
	}
	for i, s := range stores {
		page, err := s.Range(ctx, storage.Query{Path: "/registry/count/"})
		if err != nil {
			t.Fatal(err)
		}
		last = page.Revision
		total := 0
		for _, r := range page.Records {
			n, _ := strconv.Atoi(string(r.Value()))
			total += n
		}
		if total < acknowledged || total > acknowledged+unknown {
			t.Errorf("server %d has counted to %d; %d increments were acknowledged, and %d may have taken place", i, total, acknowledged, unknown)
		}
	}
	t.Logf("%d increments were acknowledged, %d may have taken place", acknowledged, unknown)
	if acknowledged < 50 {
		t.Errorf("only %d increments were acknowledged", acknowledged)
	}
	close(stop)
	watching.Wait()
	for i := range seen {
		if !slices.Equal(seen[i], seen[0]) {
			t.Errorf("watcher %d has %d events, and watcher 0 has %d", i, len(seen[i]), len(seen[0]))
		}
	}
	if len(seen[0]) < acknowledged {
		t.Errorf("the watchers have %d events of %d", len(seen[0]), acknowledged)
	}
}

// disturb kills and pauses one member after the other.
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
}

// counts are the increments of one writer.
type counts struct{ acknowledged, unknown int }

// add increments a counter once, and records whether the increment was acknowledged.
func (c *counts) add(ctx context.Context, s storage.Store, key string) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	w := storage.Write{Key: key, Value: []byte("1"), If: storage.Absent}
	switch current, err := s.Get(ctx, key); {
	case err == nil:
		n, _ := strconv.Atoi(string(current.Value()))
		w.Value, w.If = []byte(strconv.Itoa(n+1)), current.Revision
	case !errors.Is(err, storage.ErrNotFound):
		return
	}
	switch _, err := s.Put(ctx, w); {
	case err == nil:
		c.acknowledged++
	case !errors.Is(err, storage.ErrConflict):
		c.unknown++
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
	s := open(t, c, etcd.Options{Prefixes: []string{"/registry/", "/flyball/"}})
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
	closed := fmt.Sprintf("http://127.0.0.1:%d", freePorts(t, 1)[0])
	for endpoint, want := range map[string]string{
		closed:     closed + ": dial tcp",
		"nonsense": "nonsense: not a URL",
		strings.Replace(c.members[0].url, "http:", "https:", 1): "etcd cannot be reached: https://",
	} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
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
