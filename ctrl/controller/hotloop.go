package controller

import (
	"fmt"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/utils/ptr"

	"flyball.dev/ctrl/internal/queue"
	"flyball.dev/ctrl/reconcile"
)

// The thresholds of hot loop detection; see config.HotLoop.
const (
	hotLoopRuns    = 20 // consecutive reconciles that make a hot loop
	hotLoopWindow  = time.Minute
	suspectRuns    = hotLoopRuns / 2  // from here on the fields that change are recorded
	reportInterval = 10 * time.Minute // until it is reported again

	maxSuspects = 256
)

// hotLoopDetector detects hot loops. Of every request whose reconciles write it stores, for a
// minute and as hashes, the writes and how many consecutive reconciles were caused by writes of
// those before. The requests themselves are stored only if those are many, up to maxSuspects.
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
	runs     int // as of the last reconcile
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
	l := &hotLoopDetector[request]{
		controller: c, metrics: m, seed: maphash.MakeSeed(),
		recent: newRecent(now), suspects: map[request]*suspect{}, swept: now,
	}
	if q, ok := q.(queue.DiffRecorder[request]); ok {
		q.SetDiffFilter(l.isSuspect)
	}
	return l
}

func (c *controller[request]) detectsHotLoops() bool {
	return ptr.Deref(c.options.DetectHotLoops, true)
}

// isSuspect reports whether the changes of updates that lead to req are to be recorded.
func (l *hotLoopDetector[request]) isSuspect(req request) bool {
	if l.suspectCount.Load() == 0 {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.suspects[req]
	return s != nil && s.runs >= suspectRuns
}

// observe records a reconcile that has just ended, and reports a hot loop.
func (l *hotLoopDetector[request]) observe(c *reconcileContext[request], began time.Time) {
	if l == nil {
		return
	}
	c.mu.Lock()
	wrote := c.writes
	c.mu.Unlock()
	if len(wrote) > 0 {
		l.anyWrites.Store(true)
	} else if !l.anyWrites.Load() {
		return
	}
	l.mu.Lock()
	runs, since := l.record(c, wrote, began)
	report := l.updateSuspect(c.req, runs, began)
	l.mu.Unlock()
	if !report {
		return
	}
	loop := HotLoop{
		Controller: l.controller.name,
		Request:    fmt.Sprint(c.req),
		Reconciles: runs,
		Within:     began.Sub(since),
		Causes:     c.causes,
	}
	l.metrics.hotLoops.Inc()
	if report := l.controller.options.OnHotLoop; report != nil {
		report(loop)
		return
	}
	c.log().Error(nil, "Hot loop: the reconciler's own writes cause endless reconciles of the request",
		"reconciles", loop.Reconciles, "within", loop.Within, "causes", loop.Causes)
}

// record stores what a reconcile wrote. It returns how many consecutive reconciles of the request,
// up to this one, wrote something and were caused only by writes of those before, and since when.
func (l *hotLoopDetector[request]) record(c *reconcileContext[request], wrote []write, now time.Time) (runs int, since time.Time) {
	since = now
	id := l.hash(c.req, write{})
	before := l.recent.find(id, now)
	switch {
	case len(wrote) == 0:
		if before != nil {
			*before = slot{}
		}
		return runs, since
	case before != nil && l.selfCaused(c, now):
		if began := l.recent.epoch.Add(before.since); now.Sub(began) <= hotLoopWindow {
			runs, since = int(before.runs)+1, began
		}
	}
	l.recent.put(id, runs, since, now)
	for _, w := range wrote {
		l.recent.put(l.hash(c.req, w), runs, since, now)
		// The resource version of a deletion event is not known to the client that deleted.
		l.recent.put(l.hash(c.req, write{object: w.object}), runs, since, now)
	}
	return runs, since
}

// selfCaused reports whether all causes are events of writes by the request's own reconciles.
func (l *hotLoopDetector[request]) selfCaused(c *reconcileContext[request], now time.Time) bool {
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
		if l.recent.find(l.hash(c.req, w), now) == nil {
			return false
		}
	}
	return len(c.causes.List) > 0
}

// hash identifies a write by a reconcile of req; with the zero write, req itself.
func (l *hotLoopDetector[request]) hash(req request, w write) uint64 {
	return maphash.Comparable(l.seed, struct {
		req   request
		write write
	}{req, w})
}

// updateSuspect updates the suspects after a reconcile of req, and returns whether a hot loop is to
// be reported.
func (l *hotLoopDetector[request]) updateSuspect(req request, runs int, now time.Time) (report bool) {
	if runs < suspectRuns && len(l.suspects) == 0 {
		return false
	}
	if now.Sub(l.swept) > hotLoopWindow {
		l.sweep(now)
	}
	s := l.suspects[req]
	if s == nil {
		if runs < suspectRuns || len(l.suspects) >= maxSuspects {
			return false
		}
		// The changes up to now were not recorded, so it is not reported yet.
		l.suspects[req] = &suspect{runs: runs, seen: now}
		l.suspectCount.Store(int32(len(l.suspects)))
		return false
	}
	s.runs, s.seen = runs, now
	if runs < hotLoopRuns || !s.reported.IsZero() && now.Sub(s.reported) < reportInterval {
		return false
	}
	s.reported = now
	return true
}

// sweep removes the suspects that are no longer suspect and not recently reported.
func (l *hotLoopDetector[request]) sweep(now time.Time) {
	l.swept = now
	for req, s := range l.suspects {
		over := s.runs < suspectRuns || now.Sub(s.seen) > hotLoopWindow
		if over && (s.reported.IsZero() || now.Sub(s.reported) >= reportInterval) {
			delete(l.suspects, req)
		}
	}
	l.suspectCount.Store(int32(len(l.suspects)))
}
