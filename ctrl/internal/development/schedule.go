package development

import (
	"container/heap"
	"context"
	"sync"
	"time"
)

// maxObservations and maxChecks are how many observations and checks may wait. Further ones are
// dropped: a check may then miss something, but nobody waits for it. Checks wait for minutes, so they
// do not count as observations.
const (
	maxObservations = 8192
	maxChecks       = 4096
)

// schedule calls functions at their times, one after the other. It is safe for concurrent use.
type schedule struct {
	wake chan struct{} // signalled when the earliest time has changed

	mu          sync.Mutex
	pending     calls
	added       uint64
	checks      int       // how many of those pending are checks
	lastDropped time.Time // when an observation was dropped, or the zero time
}

// call is a function with its time.
type call struct {
	at    time.Time
	order uint64 // of calls with equal times
	check bool
	f     func()
}

func newSchedule() schedule { return schedule{wake: make(chan struct{}, 1)} }

// observe has an observation evaluated after a delay.
func (s *schedule) observe(delay time.Duration, f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.pending)-s.checks >= maxObservations {
		s.lastDropped = time.Now()
		return
	}
	s.add(delay, false, f)
}

// check has a check called after a delay.
func (s *schedule) check(delay time.Duration, f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.checks >= maxChecks {
		return
	}
	s.checks++
	s.add(delay, true, f)
}

// droppedSince reports whether an observation was dropped since a time.
func (s *schedule) droppedSince(t time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.lastDropped.IsZero() && !s.lastDropped.Before(t)
}

// add must be called with the lock held.
func (s *schedule) add(delay time.Duration, check bool, f func()) {
	s.added++
	c := call{time.Now().Add(delay), s.added, check, f}
	heap.Push(&s.pending, c)
	if s.pending[0].order == c.order {
		select {
		case s.wake <- struct{}{}:
		default:
		}
	}
}

// run has the functions called by do until ctx ends. Without any it sleeps without a timer.
func (s *schedule) run(ctx context.Context, do func(f func())) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil {
		f, wait := s.next()
		switch {
		case f != nil:
			do(f)
			continue
		case wait > 0:
			timer.Reset(wait)
		default:
			timer.Stop()
		}
		select {
		case <-ctx.Done():
		case <-s.wake:
		case <-timer.C:
		}
	}
}

// next removes the function that is due and returns it, or how long it is until one is: zero if
// there is none.
func (s *schedule) next() (f func(), wait time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.pending) == 0 {
		return nil, 0
	}
	if wait = time.Until(s.pending[0].at); wait > 0 {
		return nil, wait
	}
	c := heap.Pop(&s.pending).(call)
	if c.check {
		s.checks--
	}
	return c.f, 0
}

// calls is a heap of calls by time.
type calls []call

func (c calls) Len() int      { return len(c) }
func (c calls) Swap(i, j int) { c[i], c[j] = c[j], c[i] }
func (c *calls) Push(x any)   { *c = append(*c, x.(call)) }

func (c calls) Less(i, j int) bool {
	if !c[i].at.Equal(c[j].at) {
		return c[i].at.Before(c[j].at)
	}
	return c[i].order < c[j].order
}

// Pop removes the last element, which keeps nothing alive.
func (c *calls) Pop() any {
	last := len(*c) - 1
	x := (*c)[last]
	(*c)[last] = call{}
	*c = (*c)[:last]
	return x
}
