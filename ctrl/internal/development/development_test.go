package development

import (
	"container/heap"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/config"
	"flyball.dev/internal/heaptest"
)

func TestBounded(t *testing.T) {
	b := newBounded[int, int](3)
	for i := range 100 {
		b.put(i, i)
		b.put(i, -i)
	}
	b.delete(98)
	b.put(98, 1)
	if len(b.entries) > 3 || len(b.order) != 3 || !b.has(99) || b.has(3) {
		t.Errorf("%+v", b)
	}
	if v, ok := b.get(99); v != -99 || !ok {
		t.Error(v, ok)
	}
}

func TestSchedule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSchedule()
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		var got []string
		began := time.Now()
		add := func(delay time.Duration, name string) {
			s.observe(delay, func() { got = append(got, fmt.Sprint(name, " ", time.Since(began))) })
		}
		add(2*time.Second, "c")
		add(time.Second, "a")
		add(time.Second, "b")
		go func() { defer close(ended); s.run(ctx, func(f func()) { f() }) }()
		time.Sleep(time.Minute)
		add(time.Hour, "e")
		add(time.Second, "d")
		time.Sleep(2 * time.Hour)
		cancel()
		<-ended
		if want := []string{"a 1s", "b 1s", "c 2s", "d 1m1s", "e 1h1m0s"}; !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
		// Nobody takes the items that are added now, but it does not grow.
		for range 2 * maxChecks {
			s.check(time.Hour, func() {})
		}
		if len(s.pending) != maxChecks || s.droppedSince(began) {
			t.Error(len(s.pending))
		}
		for range 2 * maxObservations {
			s.observe(time.Second, func() {})
		}
		if len(s.pending) != maxChecks+maxObservations || !s.droppedSince(time.Now()) {
			t.Error(len(s.pending))
		}
	})
}

func TestReportsOnce(t *testing.T) {
	var got []config.Warning
	r := newReports(logr.Discard(), func(w config.Warning) { got = append(got, w) })
	for range 2 {
		for _, field := range []string{"a", "b"} {
			for _, writer := range []string{"x", "y"} {
				r.add(config.Warning{Check: config.CheckFights, Field: field, Writer: writer})
			}
		}
	}
	if len(got) != 4 {
		t.Fatalf("%d warnings instead of 4: %v", len(got), got)
	}
	for i := range 2 * maxReports {
		r.add(config.Warning{Check: config.CheckOwners, Object: types.NamespacedName{Name: fmt.Sprint(i)}})
	}
	if len(got) != 4+maxReports || len(r.reported) != len(got) {
		t.Errorf("%d warnings of two checks", len(got))
	}
}

func TestManagerOfChange(t *testing.T) {
	entry := func(manager, fields string, seconds int64) metav1.ManagedFieldsEntry {
		at := metav1.Unix(seconds, 0)
		return metav1.ManagedFieldsEntry{Manager: manager, Operation: "Update", APIVersion: "v1", Time: &at, FieldsV1: metav1.NewFieldsV1(fields)}
	}
	const a, ab, none = `{"f:data":{"f:a":{}}}`, `{"f:data":{"f:a":{},"f:b":{}}}`, `{}`
	for name, c := range map[string]struct {
		before, after []metav1.ManagedFieldsEntry
		want          string
	}{
		"a new one":                      {entries(entry("x", a, 1)), entries(entry("x", a, 1), entry("y", ab, 1)), "y"},
		"a later one":                    {entries(entry("x", a, 1), entry("y", ab, 1)), entries(entry("x", a, 2), entry("y", ab, 1)), "x"},
		"one that gains in its second":   {entries(entry("x", a, 1), entry("y", ab, 1)), entries(entry("x", ab, 1), entry("y", a, 1)), "x"},
		"the same value in its second":   {entries(entry("x", a, 1), entry("y", a, 1)), entries(entry("x", a, 1), entry("y", a, 1)), ""},
		"one that only loses":            {entries(entry("x", ab, 1), entry("y", a, 2)), entries(entry("x", none, 1), entry("y", a, 2)), "y"},
		"several writes, the last of y":  {entries(entry("x", a, 1)), entries(entry("x", a, 2), entry("y", ab, 3)), "y"},
		"several writes in one second":   {entries(), entries(entry("x", a, 2), entry("y", ab, 2)), ""},
		"no managed fields":              {nil, nil, ""},
		"managed fields that are broken": {entries(entry("x", "{", 1)), entries(entry("x", "[", 1)), "x"},
	} {
		before, after := &metav1.ObjectMeta{ManagedFields: c.before}, &metav1.ObjectMeta{ManagedFields: c.after}
		if got := managerOfChange(before, after); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func entries(e ...metav1.ManagedFieldsEntry) []metav1.ManagedFieldsEntry { return e }

func TestTurns(t *testing.T) {
	a, b, c := writer{own: true, controller: "a"}, writer{manager: "b"}, writer{manager: "c"}
	for name, test := range map[string]struct {
		writers []writer
		pause   time.Duration
		want    int
	}{
		"one":              {[]writer{a, a, a, a}, 0, 0},
		"in turn":          {[]writer{a, b, a, b, a}, time.Minute, 3},
		"with repetitions": {[]writer{a, a, b, b, a, b}, 0, 2},
		"too slowly":       {[]writer{a, b, a, b, a}, time.Hour, 0},
		"three":            {[]writer{a, b, c, a, b, c}, 0, 0},
	} {
		var got turns
		now := time.Unix(1e9, 0)
		for _, w := range test.writers {
			now = now.Add(test.pause)
			got = got.next(w, 0, now)
		}
		if got.count != test.want {
			t.Errorf("%s: %d, want %d", name, got.count, test.want)
		}
	}
}

// countingReader counts its reads, and finds nothing.
type countingReader struct {
	client.Reader
	reads int
}

func (r *countingReader) Get(_ context.Context, key client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
	r.reads++
	return apierrors.NewNotFound(schema.GroupResource{Resource: "configmaps"}, key.Name)
}

// TestRequestsAndMemoryAreBounded writes many objects with owners that do not exist.
func TestRequestsAndMemoryAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const writes = 50_000
		reader := &countingReader{}
		mapper := meta.NewDefaultRESTMapper(nil)
		configMap := schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}
		mapper.Add(configMap, meta.RESTScopeNamespace)
		m := New(Options{Logger: logr.Discard()})
		m.Attach(reader, mapper)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- m.Start(ctx) }()
		began := time.Now()
		for i := range writes {
			obj := &metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint(i), ResourceVersion: fmt.Sprint(i + 1),
				OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "c", UID: types.UID(fmt.Sprint(i))}}}
			if err := m.begin(ctx, configMap, obj, "", "").end(obj, nil); err != nil {
				t.Fatal(err)
			}
			if i%1000 == 0 {
				time.Sleep(time.Second)
			}
		}
		time.Sleep(time.Minute)
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if limit := 20 + 5*int(time.Since(began).Seconds()); reader.reads == 0 || reader.reads > limit {
			t.Errorf("%d requests, want at most %d", reader.reads, limit)
		}
		if n := len(m.reports.reported); n > maxReports {
			t.Errorf("%d reports", n)
		}
		if n := len(m.writes.recent.entries); n != maxWrites {
			t.Errorf("%d writes are kept", n)
		}
		if n := len(m.owners.checked.entries); n > 2*maxTracked {
			t.Errorf("%d owners are kept", n)
		}
		if n := len(m.writes.inFlight); n > 0 {
			t.Errorf("%d writes are in flight", n)
		}
	})
}

// BenchmarkUpdate is the cost of one update event, on the goroutines of the informer and of the
// monitor, for an object that one writer updates and for one that two update in turn.
func BenchmarkUpdate(b *testing.B) {
	for name, managers := range map[string][]string{"one writer": {"a", "a"}, "in turn": {"a", "b"}} {
		b.Run(name, func(b *testing.B) {
			m := New(Options{Logger: logr.Discard()})
			h := &handler{monitor: m, gvk: schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}}
			at := metav1.Now()
			object := func(version int) *corev1.ConfigMap {
				cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", ResourceVersion: fmt.Sprint(version)}}
				cm.Data = map[string]string{"a": fmt.Sprint(version)}
				cm.ManagedFields = entries(metav1.ManagedFieldsEntry{Manager: managers[version%2], Operation: "Update", APIVersion: "v1",
					Time: &at, FieldsV1: metav1.NewFieldsV1(`{"f:data":{".":{},"f:a":{}}}`)})
				return cm
			}
			states := []*corev1.ConfigMap{object(0), object(1)}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				h.OnUpdate(states[i%2], states[(i+1)%2])
				heap.Pop(&m.schedule.pending).(call).f()
			}
		})
	}
}

// TestTurnsOfValues: two writers in turn fight only if one restores what it had written.
func TestTurnsOfValues(t *testing.T) {
	a, b := writer{own: true, controller: "a"}, writer{manager: "b"}
	for name, test := range map[string]struct {
		values []uint64 // of a, b, a, ...
		want   int
	}{
		"both restore":   {[]uint64{1, 2, 1, 2, 1, 2, 1}, 5},
		"one restores":   {[]uint64{1, 2, 1, 3, 1, 4, 1, 5}, 6},
		"the other does": {[]uint64{1, 2, 3, 2, 4, 2, 5}, 4},
		"neither does":   {[]uint64{1, 2, 3, 4, 5, 6, 7}, 0},
	} {
		var got turns
		for i, value := range test.values {
			got = got.next([]writer{a, b}[i%2], value, time.Unix(1e9, 0))
		}
		if got.count != test.want {
			t.Errorf("%s: %d, want %d", name, got.count, test.want)
		}
	}
}

// TestForgottenWrites: nobody is certain of the writer of a change once so many writes of this
// process have followed that it may have been one of them.
func TestForgottenWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWrites("operator")
		id := objectID{NamespacedName: types.NamespacedName{Name: "web"}}
		write := func(n int) {
			w.begin(id)
			w.end(id, version{id, fmt.Sprint(n)}, writer{own: true})
		}
		find := func(resourceVersion string) (own, known bool) {
			by, known := w.find(version{id, resourceVersion}, time.Now())
			return by.own, known
		}
		for n := range maxWrites {
			write(n)
		}
		if own, known := find("0"); !own || !known {
			t.Error("the first write is forgotten")
		}
		if own, known := find("foreign"); own || !known {
			t.Error("a write of another is not known to be that")
		}
		write(maxWrites)
		if own, known := find("0"); own || known {
			t.Error("a write that was forgotten is known to be that of another")
		}
		time.Sleep(2 * maxLag)
		if own, known := find("foreign"); own || !known {
			t.Error("a write of another is not known to be that, later")
		}
	})
}

// TestUnknownResult: a write that has failed with a timeout in the server may have been executed.
func TestUnknownResult(t *testing.T) {
	for name, c := range map[string]struct {
		err   error
		known bool
	}{
		"timeout":  {apierrors.NewTimeoutError("slow", 1), false},
		"internal": {apierrors.NewInternalError(context.DeadlineExceeded), false},
		"no reply": {context.DeadlineExceeded, false},
		"invalid":  {apierrors.NewBadRequest("no"), true},
	} {
		m := New(Options{Logger: logr.Discard()})
		obj := &metav1.ObjectMeta{Name: "web"}
		_ = m.begin(t.Context(), schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, obj, "", "").end(obj, c.err)
		id := objectID{schema.GroupKind{Kind: "ConfigMap"}, types.NamespacedName{Name: "web"}}
		if _, known := m.writes.find(version{id, "7"}, time.Now()); known != c.known {
			t.Errorf("%s: known %v", name, known)
		}
	}
}

// TestMassDeletion: many owners are deleted while objects of theirs are created, so that not all
// deletions are remembered.
func TestMassDeletion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const owners = 3 * maxTracked
		mapper := meta.NewDefaultRESTMapper(nil)
		configMap := schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}
		mapper.Add(configMap, meta.RESTScopeNamespace)
		m := New(Options{Logger: logr.Discard(), OnWarning: func(w config.Warning) { t.Error(w) }})
		m.Attach(&countingReader{}, mapper)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- m.Start(ctx) }()
		h := &handler{monitor: m, gvk: configMap}
		for i := range owners {
			uid := types.UID(fmt.Sprint(i))
			obj := &metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint("child", i), ResourceVersion: fmt.Sprint(i + 1),
				OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: fmt.Sprint(i), UID: uid}}}
			if err := m.begin(ctx, configMap, obj, "", "").end(obj, nil); err != nil {
				t.Fatal(err)
			}
			h.OnDelete(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint(i), UID: uid}})
		}
		time.Sleep(time.Minute)
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// TestMemoryOfManyObjects updates, reconciles and deletes ten thousand objects with large states again
// and again: the memory for them stays small.
func TestMemoryOfManyObjects(t *testing.T) {
	const objects, limit = 10_000, 8 << 20 // bytes
	synctest.Test(t, func(t *testing.T) {
		m := New(Options{Logger: logr.Discard()})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- m.Start(ctx) }()
		heap := heaptest.New(t, "flyball.dev/ctrl/internal/development.")
		configMap := schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}
		h := &handler{monitor: m, gvk: configMap}
		at := metav1.Now()
		object := func(i, version int) *corev1.ConfigMap {
			cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint(i), UID: types.UID(fmt.Sprint(i)),
				ResourceVersion: fmt.Sprint(version), Generation: int64(version)}}
			cm.Data = map[string]string{"a": strings.Repeat("x", 4096)}
			cm.ManagedFields = entries(metav1.ManagedFieldsEntry{Manager: []string{"a", "b"}[version%2], Operation: "Update", APIVersion: "v1",
				Time: &at, FieldsV1: metav1.NewFieldsV1(`{"f:data":{".":{},"f:a":{}}}`)})
			return cm
		}
		for version := range 2 {
			for i := range objects {
				cm := object(i, version+1)
				h.OnUpdate(object(i, version), cm)
				run := testRun(client.ObjectKeyFromObject(cm))
				m.Begin(run)
				cm.ResourceVersion += "0"
				_ = m.begin(context.WithValue(ctx, RunKey{}, Run(run)), configMap, cm, "status", "").end(cm, nil)
				m.Reconciled(run, time.Now(), version%2 == 0)
				if i%500 == 0 {
					time.Sleep(time.Second)
				}
			}
		}
		for i := range objects {
			cm := object(i, 9)
			cm.DeletionTimestamp, cm.Finalizers = &at, []string{"example.com/cleanup"}
			h.OnUpdate(object(i, 8), cm)
			h.OnDelete(cm)
		}
		time.Sleep(10 * time.Second)
		held := heap.Held()
		t.Logf("%d KiB are kept", held>>10)
		if held > limit {
			t.Errorf("%d bytes are kept", held)
		}
		if len(m.running.requests) > 0 || len(m.writes.inFlight) > 0 {
			t.Errorf("%d reconciles and %d writes are in progress", len(m.running.requests), len(m.writes.inFlight))
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// testRun is a reconcile of a request.
type testRun types.NamespacedName

func (r testRun) ControllerName() string            { return "controller" }
func (r testRun) RequestName() types.NamespacedName { return types.NamespacedName(r) }
func (r testRun) LeaderOnly() bool                  { return true }
