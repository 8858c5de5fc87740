package queue

import (
	"context"
	"errors"
	"time"
)

// Waiting is a key with a delay that has not expired.
type Waiting[K comparable] struct {
	Key K
	// At is when it becomes ready.
	At time.Time
}

// IdleWaiter is a queue that one can wait for to be idle.
type IdleWaiter[K comparable] interface {
	// WaitIdle waits until no key is ready or in process. It returns the keys that wait, in no
	// particular order, and how many keys have become ready since the queue was made: if two calls
	// return the same number, the queue was idle in between, too.
	//
	// Possible errors: ErrShutDown, the error of ctx.
	WaitIdle(ctx context.Context) (adds uint64, waiting []Waiting[K], err error)
}

// ErrShutDown is the error of WaitIdle of a queue that was shut down.
var ErrShutDown = errors.New("the queue was shut down")

// WaitIdle implements [IdleWaiter].
func (q *Queue[K]) WaitIdle(ctx context.Context) (adds uint64, waiting []Waiting[K], err error) {
	for {
		q.mu.Lock()
		if q.state == closed {
			q.mu.Unlock()
			return 0, nil, ErrShutDown
		}
		q.core.expire(q.now())
		q.dispatch()
		if !q.core.busy() {
			for _, it := range q.core.waiting {
				waiting = append(waiting, Waiting[K]{it.key, q.epoch.Add(it.due)})
			}
			adds = q.core.adds
			q.mu.Unlock()
			return adds, waiting, nil
		}
		idle := make(chan struct{})
		q.idle = append(q.idle, idle)
		q.mu.Unlock()
		select {
		case <-idle:
		case <-ctx.Done():
			return 0, nil, context.Cause(ctx)
		}
	}
}

// signalIdle wakes the calls of WaitIdle. It must be called with the lock held.
func (q *Queue[K]) signalIdle() {
	for _, idle := range q.idle {
		close(idle)
	}
	q.idle = nil
}
