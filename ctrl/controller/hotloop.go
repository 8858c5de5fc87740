package controller

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"flyball.dev/ctrl/reconcile"
)

// What a hot loop is; see config.HotLoop.
const (
	loopRuns   = 20 // so many in a row
	loopWithin = time.Minute
	loopDoubt  = loopRuns / 2     // from here on it is found out what changes
	loopAgain  = 10 * time.Minute // until it is reported once more
)

// streak is what is known of one request whose last reconcile wrote something.
type streak struct {
	runs     int // in a row, each caused by writes of those before
	since    time.Time
	reported time.Time
	wrote    []write // the last ones
}

// loops finds hot loops. It remembers the requests that wrote something within the last minutes.
type loops[request comparable] struct {
	controller *controller[request]
	metrics    *counters
	suspects   atomic.Int32 // how many streaks are in doubt
	known      atomic.Int32 // how many there are

	mu         sync.Mutex
	young, old map[request]*streak // by when they were last touched
	turned     time.Time           // when young was begun
}

func newLoops[request comparable](c *controller[request], m *counters, queue any) *loops[request] {
	l := &loops[request]{controller: c, metrics: m, young: map[request]*streak{}, turned: time.Now()}
	if q, ok := queue.(interface{ BeCurious(func(request) bool) }); ok {
		q.BeCurious(l.inDoubt)
	}
	return l
}

// inDoubt reports whether it is worth finding out what an update changes that leads to req.
func (l *loops[request]) inDoubt(req request) bool {
	if l.suspects.Load() == 0 {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.find(req)
	return s != nil && s.runs >= loopDoubt
}

func (l *loops[request]) find(req request) *streak {
	if s := l.young[req]; s != nil {
		return s
	}
	return l.old[req]
}

// ran takes note of a reconcile that has just ended.
func (l *loops[request]) ran(c *call[request], began time.Time) {
	c.mu.Lock()
	wrote := c.wrote
	c.mu.Unlock()
	if len(wrote) == 0 && l.known.Load() == 0 {
		return
	}
	l.mu.Lock()
	loop, found := l.note(c, wrote, began)
	l.known.Store(int32(len(l.young) + len(l.old)))
	l.mu.Unlock()
	if !found {
		return
	}
	l.metrics.hotLoops.Inc()
	if tell := l.controller.options.OnHotLoop; tell != nil {
		tell(loop)
		return
	}
	c.log().Error(nil, "Hot loop: the reconciler's own writes bring the request back without end",
		"reconciles", loop.Reconciles, "within", loop.Within, "causes", loop.Causes)
}

// note brings the streak of the request up to date, and reports a loop when it is one.
func (l *loops[request]) note(c *call[request], wrote []write, now time.Time) (HotLoop, bool) {
	if now.Sub(l.turned) > loopAgain {
		l.young, l.old, l.turned = map[request]*streak{}, l.young, now
		l.countSuspects()
	}
	s := l.find(c.req)
	if len(wrote) == 0 {
		if s != nil {
			l.change(s, 0)
			delete(l.young, c.req)
			delete(l.old, c.req)
		}
		return HotLoop{}, false
	}
	if s == nil {
		s = &streak{}
	}
	l.young[c.req] = s
	delete(l.old, c.req)
	if s.caused(c.causes) {
		l.change(s, s.runs+1)
	} else {
		l.change(s, 0)
	}
	if s.runs == 0 || now.Sub(s.since) > loopWithin {
		l.change(s, 0)
		s.since = now
	}
	s.remember(wrote)
	if s.runs < loopRuns || !s.reported.IsZero() && now.Sub(s.reported) < loopAgain {
		return HotLoop{}, false
	}
	s.reported = now
	return HotLoop{
		Controller: l.controller.name,
		Request:    fmt.Sprint(c.req),
		Reconciles: s.runs,
		Within:     now.Sub(s.since),
		Causes:     c.causes,
	}, true
}

// change sets the length of a streak and keeps count of the doubtful ones.
func (l *loops[request]) change(s *streak, runs int) {
	if was, is := s.runs >= loopDoubt, runs >= loopDoubt; is && !was {
		l.suspects.Add(1)
	} else if was && !is {
		l.suspects.Add(-1)
	}
	s.runs = runs
}

// countSuspects is for when streaks have been forgotten.
func (l *loops[request]) countSuspects() {
	n := int32(0)
	for _, s := range l.old {
		if s.runs >= loopDoubt {
			n++
		}
	}
	l.suspects.Store(n)
}

// caused reports whether all causes are events of what the streak wrote.
func (s *streak) caused(causes reconcile.Causes) bool {
	for i := range causes.List {
		if !s.owns(&causes.List[i]) {
			return false
		}
	}
	return len(causes.List) > 0
}

func (s *streak) owns(c *reconcile.Cause) bool {
	for _, w := range s.wrote {
		if w.object != c.Object {
			continue
		}
		switch c.Kind {
		case reconcile.CauseCreated, reconcile.CauseUpdated:
			if w.version == c.ResourceVersion {
				return true
			}
		case reconcile.CauseDeleted:
			return true
		}
	}
	return false
}

// remember adds writes and forgets the oldest.
func (s *streak) remember(wrote []write) {
	s.wrote = append(s.wrote, wrote...)
	if extra := len(s.wrote) - maxWrites; extra > 0 {
		s.wrote = append(s.wrote[:0], s.wrote[extra:]...)
	}
}
