package queue

import (
	"math"
	"time"

	"flyball.dev/ctrl/internal/cause"
)

// keyState is the state of a key apart from whether it is being processed: a key in process may be
// unqueued, waiting or dirty.
type keyState uint8

const (
	unqueued keyState = iota // only being processed
	waiting                  // its delay has not expired
	ready                    // may be handed out
	dirty                    // due, but a worker is still processing it
)

// item is the record of one key.
type item[K comparable] struct {
	key        K
	state      keyState
	processing bool
	priority   int
	level      *level[K]     // set while ready or dirty
	flow       *flow[K]      // set while ready
	due        time.Duration // when a waiting key becomes ready
	readyAt    time.Duration // when the key became ready or dirty
	queuedAt   time.Duration // when a ready key was added to its flow
	startedAt  time.Duration // when a worker took the key
	order      uint64        // breaks ties among waiting keys
	index      int           // position in the heap of waiting keys
	links      [2]links[K]
	recorded   *recordedCauses // nil if no cause was given
}

func (it *item[K]) before(o *item[K]) bool {
	return it.due < o.due || it.due == o.due && it.order < o.order
}

func (it *item[K]) moved(i int) { it.index = i }

// recordedCauses are the causes of one key, with inline storage for the first, so that most cost
// one allocation. Ownership passes to the worker when the key is handed out.
type recordedCauses struct {
	cause.Causes
	first [1]cause.Cause
}

const (
	// maxIdleLevels is the number of levels above which empty ones are deleted.
	maxIdleLevels = 32
	// maxFreeItems bounds the free list.
	maxFreeItems = 1024
	// slabSize is how many items are allocated together once there are many, so that a backlog of
	// thousands does not cost an allocation a key.
	slabSize = 32
	// agingInterval is how many keys are handed out by priority after one that was handed out
	// because of its age, so that an aged backlog gets a share of the workers, not all of them.
	agingInterval = 7
)

// core is the queue as a state machine: every method is one event at the time now and moves the
// machine to its next state. Times are relative to the creation of the queue and monotonic. It has
// no goroutines, does not block and takes no locks.
//
// Invariants: a key has at most one item, and take hands it out only while it is not in process, so
// no key is ever processed twice at once.
type core[K comparable] struct {
	items       map[K]*item[K]
	waiting     heap[*item[K]]    // by due time
	levels      map[int]*level[K] // by priority
	readyLevels heap[*level[K]]   // levels with a ready key, highest priority first
	byAge       list[K]           // ready keys, longest queued first
	processing  list[K]           // keys in process, longest first

	depth      int           // ready and dirty keys
	startedSum time.Duration // sum of startedAt over processing
	order      uint64
	adds       uint64 // keys that became ready
	retries    uint64 // adds with a delay

	agingThreshold time.Duration  // 0 disables aging
	agingCountdown int            // keys to hand out by priority before the next aged one
	flowOf         func(K) string // nil without fair queuing
	causeCounts    [cause.Kinds]uint64

	free  *item[K]
	nfree int
	slab  []item[K] // preallocated items
}

func newCore[K comparable](agingThreshold time.Duration, flowOf func(K) string) core[K] {
	return core[K]{
		items:          map[K]*item[K]{},
		levels:         map[int]*level[K]{},
		byAge:          list[K]{by: ageLinks},
		agingThreshold: max(agingThreshold, 0),
		flowOf:         flowOf,
	}
}

// add queues key, or updates its item: the earlier time and the higher priority win. A nil cause is
// counted but not recorded.
func (c *core[K]) add(
	now time.Duration, key K, delay time.Duration, priority int, why *cause.Cause,
) {
	c.expire(now)
	if delay > 0 {
		c.retries++
	}
	it := c.items[key]
	if it == nil {
		it = c.newItem(key)
		c.items[key] = it
	}
	c.recordCause(it, why)
	switch it.state {
	case unqueued:
		it.priority = priority
		if delay <= 0 {
			c.enqueue(now, it)
			return
		}
		c.order++
		it.state, it.due, it.order = waiting, later(now, delay), c.order
		c.waiting.push(it)
	case waiting:
		it.priority = max(it.priority, priority)
		if delay <= 0 {
			c.waiting.remove(it.index)
			c.enqueue(now, it)
		} else if due := later(now, delay); due < it.due {
			it.due = due
			c.waiting.fix(it.index)
		}
	case ready, dirty:
		if priority > it.priority {
			c.promote(now, it, priority)
		}
	}
}

// expire moves the waiting keys that are due to their levels, in the order of their times.
func (c *core[K]) expire(now time.Duration) {
	for len(c.waiting) > 0 && c.waiting[0].due <= now {
		it := c.waiting[0]
		c.waiting.remove(0)
		c.enqueue(it.due, it)
	}
}

// deadline is when the next waiting key becomes ready, if there is one.
func (c *core[K]) deadline() (time.Duration, bool) {
	if len(c.waiting) == 0 {
		return 0, false
	}
	return c.waiting[0].due, true
}

// recordCause adds a cause to the causes of an item.
func (c *core[K]) recordCause(it *item[K], why *cause.Cause) {
	if why == nil {
		c.causeCounts[cause.Added]++
		if it.recorded != nil {
			it.recorded.Total++
		}
		return
	}
	c.causeCounts[why.Kind]++
	if it.recorded == nil {
		it.recorded = &recordedCauses{}
		it.recorded.List = it.recorded.first[:0]
	}
	it.recorded.Add(*why)
}

// take hands out the next key, if there is one. It fills in t except for StartedAt.
func (c *core[K]) take(now time.Duration, t *Item[K]) bool {
	c.expire(now)
	if len(c.readyLevels) == 0 {
		return false
	}
	it := c.next(now)
	it.level.advance(it.flow)
	c.removeReady(it)
	c.depth--
	t.Key, t.Priority = it.key, it.priority
	if it.recorded != nil {
		t.Causes = it.recorded.Causes
		it.recorded = nil
	}
	t.Causes.Waited = now - it.readyAt
	it.state, it.level = unqueued, nil
	it.processing, it.startedAt = true, now
	c.processing.push(it)
	c.startedSum += now
	return true
}

// next chooses the first key of the current flow of the highest priority, or, if the aging
// threshold and interval allow, the key that has been queued longest.
func (c *core[K]) next(now time.Duration) *item[K] {
	top, oldest := c.readyLevels[0], c.byAge.head
	if oldest.level == top || c.agingThreshold == 0 || now-oldest.queuedAt < c.agingThreshold {
		return top.current.ready.head
	}
	if c.agingCountdown > 0 {
		c.agingCountdown--
		return top.current.ready.head
	}
	c.agingCountdown = agingInterval
	return oldest
}

// done ends the processing of key and returns how long it took. A dirty key becomes ready, at the
// end of its level. For a key that is not in process it does nothing.
func (c *core[K]) done(now time.Duration, key K) (took time.Duration, ok bool) {
	c.expire(now)
	it := c.items[key]
	if it == nil || !it.processing {
		return 0, false
	}
	c.processing.remove(it)
	c.startedSum -= it.startedAt
	it.processing = false
	took = now - it.startedAt
	switch it.state {
	case unqueued:
		delete(c.items, key)
		c.recycle(it)
	case dirty:
		it.state = ready
		it.level.dirty--
		c.pushReady(now, it)
	}
	return took, true
}

// drop removes every waiting key and, if queued is set, every ready and dirty one.
func (c *core[K]) drop(queued bool) {
	for _, it := range c.items {
		switch {
		case it.state == waiting:
		case !queued || it.state == unqueued:
			continue
		case it.state == ready:
			c.removeReady(it)
			c.depth--
		case it.state == dirty:
			it.level.dirty--
			c.depth--
		}
		it.state, it.level, it.recorded = unqueued, nil, nil
		if !it.processing {
			delete(c.items, it.key)
		}
	}
	c.waiting = nil
}

// busy reports whether a key is ready, dirty or in process.
func (c *core[K]) busy() bool { return c.depth > 0 || c.processing.n > 0 }

func (c *core[K]) stats(now time.Duration) Stats {
	s := Stats{
		Adds:    c.adds,
		Retries: c.retries,
		Causes:  c.causeCounts,
		Depth:   make(map[int]int, len(c.levels)),
	}
	for priority, l := range c.levels {
		s.Depth[priority] = l.len()
	}
	if n := c.processing.n; n > 0 {
		s.Unfinished = time.Duration(n)*now - c.startedSum
		s.Longest = now - c.processing.head.startedAt
	}
	if oldest := c.byAge.head; oldest != nil {
		s.Oldest = now - oldest.queuedAt
	}
	return s
}

// enqueue makes it ready, or dirty while it is in process.
func (c *core[K]) enqueue(now time.Duration, it *item[K]) {
	it.readyAt = now
	it.level = c.levelOf(it.priority)
	c.adds++
	c.depth++
	if it.processing {
		it.state = dirty
		it.level.dirty++
		return
	}
	it.state = ready
	c.pushReady(now, it)
}

// promote moves a ready or dirty item to the end of a higher priority.
func (c *core[K]) promote(now time.Duration, it *item[K], priority int) {
	it.priority = priority
	if it.state == dirty {
		it.level.dirty--
		c.prune(it.level)
		it.level = c.levelOf(priority)
		it.level.dirty++
		return
	}
	c.removeReady(it)
	it.level = c.levelOf(priority)
	c.pushReady(now, it)
}

func (c *core[K]) levelOf(priority int) *level[K] {
	l := c.levels[priority]
	if l == nil {
		l = &level[K]{priority: priority}
		c.levels[priority] = l
	}
	return l
}

func (c *core[K]) pushReady(now time.Duration, it *item[K]) {
	it.queuedAt = now
	c.byAge.push(it)
	it.level.push(it, c.flowOf)
	if it.level.ready == 1 {
		c.readyLevels.push(it.level)
	}
}

func (c *core[K]) removeReady(it *item[K]) {
	l := it.level
	c.byAge.remove(it)
	l.remove(it)
	if l.ready == 0 {
		c.readyLevels.remove(l.index)
		c.prune(l)
	}
}

// prune deletes an empty level if there are many, so that memory is bounded however many priorities
// are used.
func (c *core[K]) prune(l *level[K]) {
	if l.len() == 0 && len(c.levels) > maxIdleLevels {
		delete(c.levels, l.priority)
	}
}

func (c *core[K]) newItem(key K) *item[K] {
	it := c.free
	if it == nil {
		if len(c.slab) == 0 {
			c.slab = make([]item[K], min(slabSize, len(c.items)/4+1))
		}
		it, c.slab = &c.slab[0], c.slab[1:]
		it.key = key
		return it
	}
	c.free, it.links[readyLinks].next = it.links[readyLinks].next, nil
	c.nfree--
	it.key = key
	return it
}

func (c *core[K]) recycle(it *item[K]) {
	if c.nfree == maxFreeItems {
		return
	}
	*it = item[K]{}
	it.links[readyLinks].next = c.free
	c.free = it
	c.nfree++
}

// later is now+delay, saturating.
func later(now, delay time.Duration) time.Duration {
	if delay > math.MaxInt64-now {
		return math.MaxInt64
	}
	return now + delay
}
