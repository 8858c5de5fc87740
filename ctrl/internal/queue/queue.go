// Package queue is the work queue of every controller: one structure for ready keys, delayed keys
// and keys in process. It also has the contracts between queues and their users.
//
// # Guarantees
//
// A key is processed by one worker at a time. Adding a key that is already queued only updates its
// time (the earliest wins) and its priority (the highest wins). A key that is added while it is
// being processed is handed out again after Done. Higher priorities go first; within one, the order
// is that in which keys became ready.
//
// There is no starvation: a key that has been queued for longer than Options.AgingThreshold
// precedes higher priorities, though no more than one in eight keys does. With Options.Flow the
// keys of one priority are divided into flows that are served round robin (fair queuing).
//
// The causes for which a key was added are recorded and handed to the worker with the key.
//
// # Structure
//
// core is the whole behaviour as a state machine without locks, goroutines or clocks. [Queue] adds
// a mutex, wakes the workers, and has one timer, which is armed only while a worker is idle and
// some key is waiting. There are no goroutines and there is no polling.
//
// The lists of core are intrusive, so no operation searches: a level for each priority, with a ring of flows, and a
// list of all ready keys by age. client-go's queue interfaces and package priorityqueue are views of a queue. The
// package is also client-go's metrics provider of work queues.
package queue

import (
	"sync"
	"time"

	"flyball.dev/ctrl/internal/cause"
)

// Queue is a queue of keys, safe for use by any number of goroutines. Make one with [New].
type Queue[K comparable] struct {
	mu    sync.Mutex
	core  core[K]
	state state
	epoch time.Time
	last  time.Duration // the last time passed to core
	meter meter

	available sync.Cond // a key became ready, or the queue was closed
	drained   sync.Cond // the last key is done, or the queue was closed
	blocked   int       // workers that wait on available and have not been signalled
	waking    int       // workers that have been signalled and do not hold the lock yet

	idle []chan struct{} // closed when the queue is idle or closed

	timer   *time.Timer // fires at timerAt; nil until first needed
	timerAt time.Duration
}

// state is how far a queue is shut down.
type state uint8

const (
	open     state = iota
	draining       // no additions
	closed         // no additions, nothing is handed out
)

// Options are the options of a queue.
type Options[K comparable] struct {
	Metrics Metrics

	// AgingThreshold is how long a key is queued before it may precede higher priorities. Zero or
	// less disables aging.
	AgingThreshold time.Duration

	// Flow returns the name of the flow that a key belongs to. The flows of one priority are served
	// round robin. It is called with the queue's lock held, whenever a key becomes ready. Nil means
	// that there is one flow.
	Flow func(K) string
}

// New returns an empty, open queue. The caller must shut it down.
func New[K comparable](o Options[K]) *Queue[K] {
	q := &Queue[K]{core: newCore(o.AgingThreshold, o.Flow), epoch: time.Now()}
	q.available.L, q.drained.L = &q.mu, &q.mu
	q.meter = o.Metrics.newMeter(q.Stats)
	return q
}

// now must be called with the lock held, so that the times passed to core are monotonic.
func (q *Queue[K]) now() time.Duration {
	q.last = time.Since(q.epoch)
	return q.last
}

// Add adds keys after delay, with the given priority and cause. The cause may be nil and is copied.
// A queue that is shutting down ignores the call.
func (q *Queue[K]) Add(delay time.Duration, priority int, why *cause.Cause, keys ...K) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.state != open {
		return
	}
	now := q.now()
	for _, key := range keys {
		q.core.add(now, key, delay, priority, why)
	}
	q.dispatch()
}

// AddOne is Add for one key. It does not allocate a slice.
func (q *Queue[K]) AddOne(delay time.Duration, priority int, why *cause.Cause, key K) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.state != open {
		return
	}
	q.core.add(q.now(), key, delay, priority, why)
	q.dispatch()
}

// Item is a key that was handed out to a worker.
type Item[K comparable] struct {
	Key       K
	Priority  int
	Causes    cause.Causes // with the time for which the key was ready
	StartedAt time.Time    // when it was handed out
}

// Get blocks until a key is ready and returns it with its priority and causes. The caller must call
// Done with it. Once the queue has shut down it returns the zero key and true.
func (q *Queue[K]) Get() (key K, priority int, causes cause.Causes, shutdown bool) {
	item, shutdown := q.Take()
	return item.Key, item.Priority, item.Causes, shutdown
}

// Take is Get that also returns the time.
func (q *Queue[K]) Take() (item Item[K], shutdown bool) {
	q.mu.Lock()
	for q.state != closed {
		if q.core.take(q.now(), &item) {
			item.StartedAt = q.epoch.Add(q.last)
			q.pushStats()
			q.mu.Unlock()
			q.meter.observeLatency(item.Causes.Waited)
			return item, false
		}
		q.blocked++
		q.setTimer()
		q.available.Wait()
		q.waking--
	}
	q.mu.Unlock()
	return item, true
}

// Done ends the processing of key. For a key that is not in process it does nothing.
func (q *Queue[K]) Done(key K) { q.DoneAt(key, time.Now()) }

// DoneAt is Done for a worker that has just read the clock.
func (q *Queue[K]) DoneAt(key K, now time.Time) {
	if took, ok := q.done(key, now.Sub(q.epoch)); ok {
		q.meter.observeWorkDuration(took)
	}
}

// done ends the processing of key and returns how long it took.
func (q *Queue[K]) done(key K, now time.Duration) (took time.Duration, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	// Another goroutine may have read the clock later and taken the lock first.
	q.last = max(q.last, now)
	took, ok = q.core.done(q.last, key)
	q.dispatch()
	return took, ok
}

// dispatch follows every event that may have made a key ready or ended the last one: it signals
// idle workers, arms the timer, and closes a queue that is drained. It must be called with the lock
// held.
func (q *Queue[K]) dispatch() {
	q.pushStats()
	for q.blocked > 0 && q.waking < q.core.byAge.n {
		q.blocked--
		q.waking++
		q.available.Signal()
	}
	if q.blocked > 0 {
		q.setTimer()
	}
	if len(q.idle) > 0 && !q.core.busy() {
		q.signalIdle()
	}
	if q.state == draining && !q.core.busy() {
		q.close()
	}
}

// setTimer arms the timer for the next waiting key.
func (q *Queue[K]) setTimer() {
	due, ok := q.core.deadline()
	if !ok || q.state == closed || q.timer != nil && q.timerAt == due {
		return
	}
	q.timerAt = due
	if wait := due - q.now(); q.timer == nil {
		q.timer = time.AfterFunc(wait, q.onTimer)
	} else {
		q.timer.Reset(wait)
	}
}

// onTimer runs when the timer fires.
func (q *Queue[K]) onTimer() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.timerAt = -1
	q.core.expire(q.now())
	q.dispatch()
}

// Len is the number of keys that are due and not yet handed out, including those that are still
// being processed for an earlier addition.
func (q *Queue[K]) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.core.expire(q.now())
	return q.core.depth
}

// ShutDown closes the queue: additions are ignored, queued keys are dropped, and every Get returns
// at once. Workers may still call Done.
func (q *Queue[K]) ShutDown() {
	q.mu.Lock()
	if q.state != closed {
		q.close()
	}
	q.mu.Unlock()
	q.meter.close()
}

// ShutDownWithDrain ignores further additions, drops the waiting keys, and returns when the others
// have been handed out and are done, or when ShutDown is called.
func (q *Queue[K]) ShutDownWithDrain() {
	q.mu.Lock()
	if q.state == open {
		q.core.expire(q.now())
		q.core.drop(false)
		q.state = draining
		q.dispatch()
	}
	for q.state != closed {
		q.drained.Wait()
	}
	q.mu.Unlock()
	q.meter.close()
}

// ShuttingDown reports whether the queue ignores additions.
func (q *Queue[K]) ShuttingDown() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.state != open
}

func (q *Queue[K]) close() {
	q.state = closed
	q.core.expire(q.now())
	q.core.drop(true)
	if q.timer != nil {
		q.timer.Stop()
	}
	q.pushStats()
	q.available.Broadcast()
	q.drained.Broadcast()
	q.signalIdle()
}

// Stats are the statistics of a queue.
type Stats struct {
	Adds    uint64      // keys that became due, counted once until they are handed out
	Retries uint64      // adds with a delay
	Depth   map[int]int // the keys that Len counts, by priority
	Causes  [cause.Kinds]uint64

	// Oldest is how long the ready key has been queued that has been queued longest.
	Oldest time.Duration

	// Unfinished is the sum of the times for which the keys in process have been in process;
	// Longest is the longest of them.
	Unfinished, Longest time.Duration
}

// Stats returns the present statistics.
func (q *Queue[K]) Stats() Stats {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.core.expire(q.now())
	return q.core.stats(q.now())
}

func (q *Queue[K]) pushStats() {
	if q.meter.push != nil {
		q.meter.push(q.core.stats(q.now()))
	}
}
