package development

import (
	"container/heap"
	"context"
	"sync"
	"time"
)

// maxScheduled is how many functions may wait. Further ones are dropped: a check may then miss
// something, but nobody waits for it.
const maxScheduled = 8192

// schedule calls functions at their times, one after the other. It is safe for concurrent use.
type schedule struct {
	wake chan struct{} // signalled when the earliest time has changed

	mu      sync.Mutex
	pending calls
	added   uint64
}

// call is a function with its time.
type call struct {
	at    time.Time
	order uint64 // of calls with equal times
	f     func()
}

func newSchedule() schedule { return schedule{wake: make(chan struct{}, 1)} }

// after has f called after a delay.
func (s *schedule) after(delay time.Duration, f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.pending) >= maxScheduled {
		return
	}
	s.added++
	c := call{time.Now().Add(delay), s.added, f}
	heap.Push(&s.pending, c)
	if s.pending[0].order == c.order {
		select {
		case s.wake <- struct{}{}:
		default:
		}
	}
}

// run calls the functions until ctx ends. Without any it sleeps without a timer.
func (s *schedule) run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil {
		f, wait := s.next()
		switch {
		case f != nil:
			f()
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
	return heap.Pop(&s.pending).(call).f, 0
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
