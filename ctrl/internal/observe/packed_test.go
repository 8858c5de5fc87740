package observe

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/internal/cause"
)

// TestPacked packs random records: all is there afterwards but reads, log lines, objects, the UIDs of what was not deleted, and the
// versions before writes that changed something.
func TestPacked(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	text := func() string {
		return []string{"", "a", "default", "x/y z", "日本", fmt.Sprint(random.Uint64())}[random.IntN(6)]
	}
	name := func() types.NamespacedName { return types.NamespacedName{Namespace: text(), Name: text()} }
	took := func() time.Duration { return time.Duration(random.Int64() >> random.IntN(63)) }
	flag := func() bool { return random.IntN(2) == 0 }
	var v vocabulary
	for range 2000 {
		gvk := schema.GroupVersionKind{Group: text(), Version: text(), Kind: text()}
		run := &Run{ID: random.Uint64() >> 1, Controller: "c", Name: name(), Priority: random.IntN(9) - 4, Started: time.Unix(0, random.Int64())}
		if flag() {
			run.other = struct{ A, B string }{text(), text()}
		}
		run.outcome = Outcome{Ended: true, Took: took(), Result: text(), After: took(), Err: text(), Conflict: flag()}
		run.Causes = cause.Causes{Total: random.IntN(1000), Waited: took(), List: []cause.Cause{}}
		for range random.IntN(4) {
			run.Causes.List = append(run.Causes.List, cause.Cause{
				Kind: cause.Kind(random.IntN(int(cause.Kinds))), Object: name(), UID: types.UID(text()), GVK: gvk, ResourceVersion: text(), Changed: text(),
			})
		}
		run.writes, run.dropped = []Write{}, [3]int{1, random.IntN(500), 2}
		run.reads, run.lines = []Read{{Version: "1"}}, []Line{{Message: "x"}}
		for range random.IntN(4) {
			run.writes = append(run.writes, Write{
				At: took(), Verb: []string{"create", "delete", "deletecollection"}[random.IntN(3)], SubResource: text(), Type: &Type{GVK: gvk},
				Key: name(), UID: types.UID(text()), Guessed: flag(), Version: text(), Was: text(), DryRun: flag(), Took: took(), Err: text(),
				Before: copied{obj: &corev1.Pod{}}, Large: flag(),
			})
		}
		p := v.pack(run)
		got := v.reading.unpack(p, "c")
		want := &Run{ID: run.ID, Controller: "c", Name: run.Name, other: run.other, Causes: run.Causes, Priority: run.Priority,
			Started: run.Started, Packed: true, outcome: run.outcome, entries: entries{writes: run.writes}, dropped: [3]int{0, run.dropped[aWrite], 0}}
		for i := range want.Causes.List {
			if c := &want.Causes.List[i]; c.Kind != cause.Deleted {
				c.UID = ""
			}
		}
		for i := range want.writes {
			w := &want.writes[i]
			w.Before, w.Large, w.Packed = nil, false, true
			if !w.Deletes() {
				w.UID = ""
			}
			if w.Was != w.Version {
				w.Was = ""
			}
		}
		if d := cmp.Diff(want, got, cmp.AllowUnexported(Run{}, entries{}, Type{}, Reach{}), cmp.FilterPath(func(p cmp.Path) bool {
			return p.Last().String() == ".mu"
		}, cmp.Ignore())); d != "" {
			t.Fatalf("the record is otherwise afterwards (-want +got):\n%s", d)
		}
	}
}

// TestEarlier records 12,000 reconciles with nine writes each: at least the last 10,000 are there with all causes and writes, and the
// last ones with all else.
func TestEarlier(t *testing.T) {
	r := New(0)
	workers := []*Worker{r.AddController(controls{name: "a"}).NewWorker(), r.AddController(controls{name: "b"}).NewWorker()}
	writer := r.Client(fakeClient{}, client.Options{})
	const runs, kept = 12_000, 10_000
	for i := range runs {
		name := types.NamespacedName{Namespace: "production", Name: fmt.Sprint("a-name-of-some-length-", i)}
		causes := cause.Causes{Total: 1, List: []cause.Cause{{Kind: cause.Updated, Object: name, UID: "6f2b1c1e-0d3f-4b5c-8f6a-2a8e8e8d0001",
			GVK: schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Order"}, ResourceVersion: fmt.Sprint(1_000_000 + i)}}}
		w := workers[i%2]
		run := w.Begin(name, nil, causes, 0, time.Now())
		ctx := context.WithValue(t.Context(), RunKey{}, run)
		for n := range 9 {
			_ = writer.Get(ctx, name, &corev1.Pod{})
			_ = writer.Update(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
				Namespace: name.Namespace, Name: fmt.Sprint(name.Name, "-", n), ResourceVersion: fmt.Sprint(2_000_000 + 9*i + n), UID: "6f2b1c1e-0d3f-4b5c-8f6a-2a8e8e8d0002",
			}})
		}
		r.Logger(run, logr.Discard()).Info("reconciled", "name", name)
		w.End(run, Outcome{Result: "success", Took: 20 * time.Millisecond}, false)
	}
	byID := map[uint64]Copy{}
	whole := 0
	for _, run := range r.Runs() {
		c := run.Copy()
		byID[run.ID] = c
		if !run.Packed {
			whole++
			if len(c.Reads) != 9 || len(c.Lines) != 1 || c.Writes[8].After == nil {
				t.Fatalf("reconcile %d has lost something: %+v", run.ID, c)
			}
		}
	}
	t.Logf("%d reconciles are whole, %d packed, in %d bytes", whole, len(byID)-whole, r.Size())
	for id := uint64(runs - kept + 1); id <= runs; id++ {
		c, ok := byID[id]
		i := int(id) - 1
		switch {
		case !ok:
			t.Fatalf("reconcile %d of %d is forgotten", id, runs)
		case len(c.Causes.List) != 1 || c.Causes.List[0].ResourceVersion != fmt.Sprint(1_000_000+i) || len(c.Writes) != 9:
			t.Fatalf("reconcile %d is %+v", id, c)
		case c.Writes[8].Key.Name != fmt.Sprint("a-name-of-some-length-", i, "-8") || c.Controller != []string{"a", "b"}[i%2]:
			t.Fatalf("reconcile %d is %+v", id, c)
		}
	}
	if whole < 100 || r.Size() > DefaultLimit {
		t.Errorf("%d reconciles are whole, and the records count for %d bytes", whole, r.Size())
	}
	if _, forgotten := r.Forgotten(); forgotten != uint64(runs-len(byID)) {
		t.Errorf("%d reconciles are forgotten, and %d are there", forgotten, len(byID))
	}
}

// TestTenMinutes: the records of a busy operator go back for ten minutes and more. A third of its reconciles write, as most find
// nothing to do.
func TestTenMinutes(t *testing.T) {
	r := New(0)
	w := r.AddController(controls{name: "c"}).NewWorker()
	c := r.Client(fakeClient{}, client.Options{})
	const perSecond, seconds = 50, 15 * 60
	start := time.Unix(1_000_000_000, 0)
	for i := range perSecond * seconds {
		name := types.NamespacedName{Namespace: "production", Name: fmt.Sprint("a-name-of-some-length-", i%1000)}
		causes := cause.Causes{Total: 1, List: []cause.Cause{{Kind: cause.Updated, Object: name, UID: "6f2b1c1e-0d3f-4b5c-8f6a-2a8e8e8d0001",
			GVK: schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Order"}, ResourceVersion: fmt.Sprint(1_000_000 + i)}}}
		run := w.Begin(name, nil, causes, 0, start.Add(time.Duration(i)*time.Second/perSecond))
		ctx := context.WithValue(t.Context(), RunKey{}, run)
		for range 3 {
			_ = c.Get(ctx, name, &corev1.Pod{})
		}
		if i%3 == 0 {
			for n := range 2 {
				_ = c.Update(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: fmt.Sprint(name.Name, "-", n), ResourceVersion: fmt.Sprint(2_000_000 + i)}})
			}
		}
		r.Logger(run, logr.Discard()).Info("reconciled", "name", name)
		w.End(run, Outcome{Result: "success", Took: 20 * time.Millisecond}, false)
	}
	runs := r.Runs()
	oldest := slices.MinFunc(runs, func(a, b *Run) int { return a.Started.Compare(b.Started) })
	back := start.Add(seconds * time.Second).Sub(oldest.Started)
	t.Logf("%d reconciles in %d bytes go back for %v", len(runs), r.Size(), back)
	if back < 10*time.Minute {
		t.Errorf("the records of %d reconciles go back for %v", len(runs), back)
	}
}

// TestRequestText: a request that is nil has a text too.
func TestRequestText(t *testing.T) {
	for _, request := range []any{nil, "text", &struct{}{}} {
		if RequestText(request) == "" {
			t.Errorf("%T has no text", request)
		}
	}
}

// TestPackedRequests: what a request points to may change when its reconcile has ended. Nothing reads it then, and the records count for
// what they counted for.
func TestPackedRequests(t *testing.T) {
	type tenant struct{ seen map[int][]byte }
	r := New(64 << 10)
	c := r.AddController(controls{name: "c"})
	var workers sync.WaitGroup
	for range 2 {
		w := c.NewWorker()
		workers.Go(func() {
			own := &tenant{seen: map[int][]byte{}}
			for i := range 5000 {
				run := w.Begin(types.NamespacedName{}, own, cause.Causes{}, 0, time.Now())
				own.seen[i%40] = make([]byte, 100)
				if i%80 == 0 {
					clear(own.seen)
				}
				w.End(run, Outcome{Result: "success"}, false)
			}
		})
	}
	ended, page := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(page)
		for {
			for _, run := range r.Runs() {
				_ = run.Request()
			}
			select {
			case <-ended:
				return
			default:
			}
		}
	}()
	workers.Wait()
	close(ended)
	<-page
	var size int64
	for _, p := range c.earlier {
		size += p.size
	}
	if size != c.earlierSize || size != r.packedSize || c.size+size != r.total {
		t.Errorf("the records count for %d bytes: the packed ones for %d, %d and %d", r.total, r.packedSize, size, c.earlierSize)
	}
	if r.Size() > 64<<10 {
		t.Errorf("the records count for %d bytes", r.Size())
	}
}
