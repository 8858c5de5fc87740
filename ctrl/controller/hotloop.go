package controller

import (
	"fmt"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/utils/ptr"

	"flyball.dev/ctrl/reconcile"
)

// What a hot loop is; see config.HotLoop.
const (
	loopRuns   = 20 // so many in a row
	loopWithin = time.Minute
	loopDoubt  = loopRuns / 2     // from here on causes include what changed
	loopAgain  = 10 * time.Minute // until it is reported once more

	suspectsAtMost = 256
)

// loops detects hot loops: requests that are reconciled again and again because of their own writes. It
// keeps, as hashes and for a minute, the writes of each reconcile and how many reconciles in a row were
// caused by writes of those before. Requests for which that are many become suspects, which are few.
type loops[request comparable] struct {
	controller *controller[request]
	metrics    *counters
	seed       maphash.Seed
	written    atomic.Bool  // whether any reconcile has written anything
	suspected  atomic.Int32 // how many suspects there are

	mu       sync.Mutex
	recent   recent
	suspects map[request]*suspect
	swept    time.Time // when suspects were last looked through
}

// suspect is a request that may be in a hot loop, or was not long ago.
type suspect struct {
	runs     int // as of the last reconcile
	seen     time.Time
	reported time.Time
}

// newLoops returns nil, which detects nothing and costs nothing, if the options disable the detection.
func newLoops[request comparable](c *controller[request], m *counters, queue any) *loops[request] {
	if !c.detectsHotLoops() {
		return nil
	}
	now := time.Now()
	l := &loops[request]{controller: c, metrics: m, seed: maphash.MakeSeed(), recent: newRecent(now), suspects: map[request]*suspect{}, swept: now}
	if q, ok := queue.(interface{ BeCurious(func(request) bool) }); ok {
		q.BeCurious(l.inDoubt)
	}
	return l
}

func (c *controller[request]) detectsHotLoops() bool {
	return ptr.Deref(c.options.DetectHotLoops, true)
}

// inDoubt reports whether the causes of req should include what an update changed, which is expensive.
func (l *loops[request]) inDoubt(req request) bool {
	if l.suspected.Load() == 0 {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.suspects[req]
	return s != nil && s.runs >= loopDoubt
}

// ran records a reconcile that has just ended, and reports a hot loop.
func (l *loops[request]) ran(c *call[request], began time.Time) {
	if l == nil {
		return
	}
	c.mu.Lock()
	wrote := c.wrote
	c.mu.Unlock()
	if len(wrote) > 0 {
		l.written.Store(true)
	} else if !l.written.Load() {
		return
	}
	l.mu.Lock()
	runs, since := l.note(c, wrote, began)
	report := l.suspect(c.req, runs, began)
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
	if tell := l.controller.options.OnHotLoop; tell != nil {
		tell(loop)
		return
	}
	c.log().Error(nil, "Hot loop: the reconciler's own writes bring the request back without end",
		"reconciles", loop.Reconciles, "within", loop.Within, "causes", loop.Causes)
}

// note records what a reconcile wrote. It returns how many reconciles of the request in a row, up to this
// one, wrote something and were caused only by writes of those before, and when the first of them began.
func (l *loops[request]) note(c *call[request], wrote []write, now time.Time) (runs int, since time.Time) {
	since = now
	id := l.hash(c.req, write{})
	before := l.recent.find(id, now)
	switch {
	case len(wrote) == 0:
		if before != nil {
			*before = slot{}
		}
		return runs, since
	case before != nil && l.caused(c, now):
		if began := l.recent.epoch.Add(before.since); now.Sub(began) <= loopWithin {
			runs, since = int(before.runs)+1, began
		}
	}
	l.recent.put(id, runs, since, now)
	for _, w := range wrote {
		l.recent.put(l.hash(c.req, w), runs, since, now)
		// The resource version in the event of a deletion is not in the answer to the client.
		l.recent.put(l.hash(c.req, write{object: w.object}), runs, since, now)
	}
	return runs, since
}

// caused reports whether all causes are events of what the request's own reconciles wrote.
func (l *loops[request]) caused(c *call[request], now time.Time) bool {
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

// hash identifies a write of a reconcile of req; with no write, req itself.
func (l *loops[request]) hash(req request, w write) uint64 {
	return maphash.Comparable(l.seed, struct {
		req   request
		write write
	}{req, w})
}

// suspect updates the suspect of a request, and returns whether a hot loop is to be reported.
func (l *loops[request]) suspect(req request, runs int, now time.Time) (report bool) {
	if runs < loopDoubt && len(l.suspects) == 0 {
		return false
	}
	if now.Sub(l.swept) > loopWithin {
		l.sweep(now)
	}
	s := l.suspects[req]
	if s == nil {
		if runs < loopDoubt || len(l.suspects) >= suspectsAtMost {
			return false
		}
		// Wait for a cause that includes what changed.
		l.suspects[req] = &suspect{runs: runs, seen: now}
		l.suspected.Store(int32(len(l.suspects)))
		return false
	}
	s.runs, s.seen = runs, now
	if runs < loopRuns || !s.reported.IsZero() && now.Sub(s.reported) < loopAgain {
		return false
	}
	s.reported = now
	return true
}

// sweep removes suspects that are no longer in a loop and were not reported recently.
func (l *loops[request]) sweep(now time.Time) {
	l.swept = now
	for req, s := range l.suspects {
		over := s.runs < loopDoubt || now.Sub(s.seen) > loopWithin
		if over && (s.reported.IsZero() || now.Sub(s.reported) >= loopAgain) {
			delete(l.suspects, req)
		}
	}
	l.suspected.Store(int32(len(l.suspects)))
}
