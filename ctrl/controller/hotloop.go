package controller

import (
	"fmt"
	"hash/maphash"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/utils/ptr"

	"flyball.dev/ctrl/internal/queue"
	"flyball.dev/ctrl/reconcile"
)

// The thresholds of hot loop detection; see config.HotLoop.
const (
	hotLoopRuns = 20 // consecutive reconciles that get nowhere and make a hot loop
	// runawayFactor is how many reconciles that get somewhere count as one that does not: to create
	// objects without end is a loop too.
	runawayFactor  = 10
	hotLoopWindow  = time.Minute
	suspectRuns    = hotLoopRuns / 2  // from here on the fields that change are recorded
	reportInterval = 10 * time.Minute // until it is reported again

	maxSuspects = 256
)

// hotLoopDetector detects hot loops. For every request with reconciles that write, it stores the writes
// and how many consecutive reconciles were caused by writes of the reconciles before, for a minute and
// as hashes. A reconcile gets somewhere if an object is written, created or deleted that was not
// within that minute, as by an operator that creates its objects one by one. The requests themselves
// are stored only if those are many, up to maxSuspects.
type hotLoopDetector[request comparable] struct {
	controller   *controller[request]
	metrics      *counters
	seed         maphash.Seed
	anyWrites    atomic.Bool  // whether any reconcile has written
	suspectCount atomic.Int32 // number of suspects

	mu       sync.Mutex
	recent   recent
	suspects map[request]*suspect
	swept    time.Time // when suspects were last swept
}

// suspect is a request that may be in a hot loop, or was recently.
type suspect struct {
	loops    int // as of the last reconcile
	seen     time.Time
	reported time.Time
}

// newHotLoopDetector returns nil, which is a valid detector that does nothing, if detection is
// disabled.
func newHotLoopDetector[request comparable](c *controller[request], m *counters, q any) *hotLoopDetector[request] {
	if !c.detectsHotLoops() {
		return nil
	}
	now := time.Now()
	d := &hotLoopDetector[request]{
		controller: c, metrics: m, seed: maphash.MakeSeed(),
		recent: newRecent(now), suspects: map[request]*suspect{}, swept: now,
	}
	if q, ok := q.(queue.DiffRecorder[request]); ok {
		q.SetDiffFilter(d.isSuspect)
	}
	return d
}

func (c *controller[request]) detectsHotLoops() bool {
	return ptr.Deref(c.options.DetectHotLoops, true)
}

// isSuspect reports whether the changes of updates that lead to req are to be recorded.
func (d *hotLoopDetector[request]) isSuspect(req request) bool {
	if d.suspectCount.Load() == 0 {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.suspects[req]
	return s != nil && s.loops >= suspectRuns
}

// observe records a reconcile that has just ended, and reports a hot loop.
func (d *hotLoopDetector[request]) observe(c *reconcileContext[request], began time.Time) {
	if d == nil {
		return
	}
	c.mu.Lock()
	wrote := c.writes
	c.mu.Unlock()
	if len(wrote) > 0 {
		d.anyWrites.Store(true)
	} else if !d.anyWrites.Load() {
		return
	}
	d.mu.Lock()
	n, since := d.record(c, wrote, began)
	report := d.updateSuspect(c.req, n.loops(), began)
	d.mu.Unlock()
	if !report {
		return
	}
	loop := HotLoop{
		Controller: d.controller.name,
		Request:    fmt.Sprint(c.req),
		Reconciles: n.runs,
		Within:     began.Sub(since),
		Causes:     c.causes,
	}
	d.metrics.hotLoops.Inc()
	if d.controller.record != nil {
		d.controller.record.HotLoop(loop, c.RequestName())
	}
	if report := d.controller.options.OnHotLoop; report != nil {
		report(loop)
		return
	}
	if monitor := d.controller.development; monitor != nil {
		monitor.HotLoop(loop, c.RequestName())
		return
	}
	c.log().Error(nil, "Hot loop: the reconciler's own writes cause endless reconciles of the request",
		"reconciles", loop.Reconciles, "within", loop.Within, "causes", loop.Causes)
}

// count counts the consecutive reconciles of a request that wrote something and were caused only by
// writes of those before.
type count struct {
	runs int // all
	idle int // the last ones, which got nowhere
}

// loops returns by how many reconciles the count exceeds what a working operator needs.
func (n count) loops() int { return max(n.idle, n.runs/runawayFactor) }

// record stores what a reconcile wrote. It returns the count up to this reconcile, and since when.
func (d *hotLoopDetector[request]) record(
	c *reconcileContext[request], wrote []write, now time.Time,
) (n count, since time.Time) {
	since = now
	advanced := d.advanced(c, wrote, now)
	id := d.hash(c.req, write{})
	before := d.recent.find(id, now)
	switch {
	case len(wrote) == 0:
		if before != nil {
			*before = slot{}
		}
		return n, since
	case before != nil && d.selfCaused(c, now):
		if began := d.recent.epoch.Add(before.since); now.Sub(began) <= hotLoopWindow {
			n, since = count{int(before.runs) + 1, int(before.idle) + 1}, began
		}
	}
	if advanced {
		n.idle = 0
	}
	d.recent.put(id, n, since, now)
	for _, w := range wrote {
		d.recent.put(d.hash(c.req, w), n, since, now)
		// The resource version of a deletion event is not known to the client that deleted.
		d.recent.put(d.hash(c.req, write{object: w.object}), n, since, now)
	}
	for _, w := range lifetimes(c.causes) {
		d.recent.put(d.hash(c.req, w), n, since, now)
	}
	return n, since
}

// advanced reports whether a reconcile got somewhere: whether it wrote an object, or was caused by the
// creation or deletion of one, for the first time within a minute.
func (d *hotLoopDetector[request]) advanced(c *reconcileContext[request], wrote []write, now time.Time) bool {
	first := func(w write) bool { return d.recent.find(d.hash(c.req, w), now) == nil }
	return slices.ContainsFunc(wrote, func(w write) bool { return first(write{object: w.object}) }) ||
		slices.ContainsFunc(lifetimes(c.causes), first)
}

// lifetimes returns the causes that are the creation or the deletion of an object, as writes with a
// version that no object has.
func lifetimes(causes reconcile.Causes) (all []write) {
	for i := range causes.List {
		switch why := &causes.List[i]; why.Kind {
		case reconcile.CauseCreated, reconcile.CauseDeleted:
			all = append(all, write{why.Object, why.Kind.String()})
		}
	}
	return all
}

// selfCaused reports whether all causes are events of writes by the request's own reconciles.
func (d *hotLoopDetector[request]) selfCaused(c *reconcileContext[request], now time.Time) bool {
	for i := range c.causes.List {
		why := &c.causes.List[i]
		w := write{object: why.Object, version: why.ResourceVersion}
		switch why.Kind {
		case reconcile.CauseCreated, reconcile.CauseUpdated:
		case reconcile.CauseDeleted:
			w.version = ""
		default:
			return false
		}
		if d.recent.find(d.hash(c.req, w), now) == nil {
			return false
		}
	}
	return len(c.causes.List) > 0
}

// hash identifies a write by a reconcile of req; with the zero write, req itself.
func (d *hotLoopDetector[request]) hash(req request, w write) uint64 {
	return maphash.Comparable(d.seed, struct {
		req   request
		write write
	}{req, w})
}

// updateSuspect updates the suspects after a reconcile of req, and returns whether a hot loop is to
// be reported.
func (d *hotLoopDetector[request]) updateSuspect(req request, loops int, now time.Time) (report bool) {
	if loops < suspectRuns && len(d.suspects) == 0 {
		return false
	}
	if now.Sub(d.swept) > hotLoopWindow {
		d.sweep(now)
	}
	s := d.suspects[req]
	if s == nil {
		if loops < suspectRuns || len(d.suspects) >= maxSuspects {
			return false
		}
		// The changes up to now were not recorded, so it is not reported yet.
		d.suspects[req] = &suspect{loops: loops, seen: now}
		d.suspectCount.Store(int32(len(d.suspects)))
		return false
	}
	s.loops, s.seen = loops, now
	if loops < hotLoopRuns || !s.reported.IsZero() && now.Sub(s.reported) < reportInterval {
		return false
	}
	s.reported = now
	return true
}

// sweep removes the suspects that are no longer suspect and not recently reported.
func (d *hotLoopDetector[request]) sweep(now time.Time) {
	d.swept = now
	for req, s := range d.suspects {
		over := s.loops < suspectRuns || now.Sub(s.seen) > hotLoopWindow
		if over && (s.reported.IsZero() || now.Sub(s.reported) >= reportInterval) {
			delete(d.suspects, req)
		}
	}
	d.suspectCount.Store(int32(len(d.suspects)))
}
