package queue

import (
	"math"
	"time"

	"flyball.dev/ctrl/internal/cause"
)

// keyState says where a key stands in line. Whether it is being processed is a separate question: a
// key in process may stand nowhere, may be waiting, or may be parked.
type keyState uint8

const (
	unqueued keyState = iota // only being processed
	waiting                  // its time has not come
	ready                    // may be handed out
	dirty                    // its time has come, but a worker still has it
)

// item is everything the queue knows about one key.
type item[K comparable] struct {
	key        K
	state      keyState
	processing bool
	priority   int
	level      *level[K]     // set while ready or parked
	flow       *flow[K]      // set while ready
	due        time.Duration // when a waiting key becomes ready
	readyAt    time.Duration // when the key became ready or parked
	queuedAt   time.Duration // when a ready key joined the line it is in
	startedAt  time.Duration // when a worker took the key
	order      uint64        // breaks ties among waiting keys
	index      int           // position in the heap of waiting keys
	links      [2]links[K]
	recorded   *recordedCauses // nil if nobody gave a reason
}

func (e *item[K]) before(o *item[K]) bool {
	return e.due < o.due || e.due == o.due && e.order < o.order
}

func (e *item[K]) moved(i int) { e.index = i }

// recordedCauses are those of one key, with room for the first, so that most cost one allocation. They
// belong to the worker as soon as the key is handed out.
type recordedCauses struct {
	cause.Causes
	first [1]cause.Cause
}

const (
	// maxIdleLevels is how many priorities keep their level when nothing is in it.
	maxIdleLevels = 32
	// maxFreeItems bounds the entries kept for the next key.
	maxFreeItems = 1024
	// slabSize is how many entries are made together, once there are many: a backlog of
	// thousands costs one allocation for so many keys.
	slabSize = 32
	// agingInterval is how many keys are handed out by priority after one that went first for its age:
	// a backlog that has grown old gets a share of the workers, not all of them.
	agingInterval = 7
)

// core is the queue as a state machine: every method is one event, told the time at which it
// happens, and leaves the machine in its next state. Times are counted from the making of the queue
// and never go back. It starts nothing, waits for nothing and locks nothing.
//
// A key is in the machine at most once. It is handed out by take only while no worker has it, so no
// key is ever processed twice at once.
type core[K comparable] struct {
	items       map[K]*item[K]
	waiting     heap[*item[K]]    // by due time
	levels      map[int]*level[K] // by priority
	readyLevels heap[*level[K]]   // the levels with a ready key, highest priority first
	byAge       list[K]           // ready keys, in the order in which they joined their lines
	processing  list[K]           // keys in process, longest first

	depth      int           // ready and parked keys
	startedSum time.Duration // sum of began over working
	order      uint64
	adds       uint64 // keys that became ready
	retries    uint64 // adds with a delay

	agingThreshold time.Duration  // after which a key may go before higher priorities; 0 means never
	agingCountdown int            // how many keys must go by priority before another may
	flowOf         func(K) string // nil if there is no fairness
	causeCounts    [cause.Kinds]uint64

	free  *item[K]
	nfree int
	slab  []item[K] // never used
}

func newCore[K comparable](patience time.Duration, flowOf func(K) string) core[K] {
	return core[K]{
		items:          map[K]*item[K]{},
		levels:         map[int]*level[K]{},
		byAge:          list[K]{by: ageLinks},
		agingThreshold: max(patience, 0),
		flowOf:         flowOf,
	}
}

// add puts key in line, or adjusts the place it has: the earlier time and the higher priority win.
// A nil cause means that there is nothing to remember.
func (c *core[K]) add(now time.Duration, key K, delay time.Duration, priority int, why *cause.Cause) {
	c.expire(now)
	if delay > 0 {
		c.retries++
	}
	e := c.items[key]
	if e == nil {
		e = c.newItem(key)
		c.items[key] = e
	}
	c.recordCause(e, why)
	switch e.state {
	case unqueued:
		e.priority = priority
		if delay <= 0 {
			c.enqueue(now, e)
			return
		}
		c.order++
		e.state, e.due, e.order = waiting, later(now, delay), c.order
		c.waiting.push(e)
	case waiting:
		e.priority = max(e.priority, priority)
		if delay <= 0 {
			c.waiting.remove(e.index)
			c.enqueue(now, e)
		} else if due := later(now, delay); due < e.due {
			e.due = due
			c.waiting.fix(e.index)
		}
	case ready, dirty:
		if priority > e.priority {
			c.promote(now, e, priority)
		}
	}
}

// expire moves the keys whose time has come into their lines, in the order of their times.
func (c *core[K]) expire(now time.Duration) {
	for len(c.waiting) > 0 && c.waiting[0].due <= now {
		e := c.waiting[0]
		c.waiting.remove(0)
		c.enqueue(e.due, e)
	}
}

// deadline is when the next waiting key becomes ready.
func (c *core[K]) deadline() (time.Duration, bool) {
	if len(c.waiting) == 0 {
		return 0, false
	}
	return c.waiting[0].due, true
}

// recordCause remembers a cause for e.
func (c *core[K]) recordCause(e *item[K], why *cause.Cause) {
	if why == nil {
		c.causeCounts[cause.Added]++
		if e.recorded != nil {
			e.recorded.Total++
		}
		return
	}
	c.causeCounts[why.Kind]++
	if e.recorded == nil {
		e.recorded = &recordedCauses{}
		e.recorded.List = e.recorded.first[:0]
	}
	e.recorded.Add(*why)
}

// take hands out the next key, if there is one: it fills in t but for the time of day.
func (c *core[K]) take(now time.Duration, t *Item[K]) bool {
	c.expire(now)
	if len(c.readyLevels) == 0 {
		return false
	}
	e := c.next(now)
	e.level.advance(e.flow)
	c.removeReady(e)
	c.depth--
	t.Key, t.Priority = e.key, e.priority
	if e.recorded != nil {
		t.Causes = e.recorded.Causes
		e.recorded = nil
	}
	t.Causes.Waited = now - e.readyAt
	e.state, e.level = unqueued, nil
	e.processing, e.startedAt = true, now
	c.processing.push(e)
	c.startedSum += now
	return true
}

// next chooses the first key of the flow whose turn it is at the highest priority, or the key that
// stands longest, if that is long enough.
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

// done ends the processing of key and says how long it took. A key that was added meanwhile takes
// its place at the end of its line. It does nothing for a key that no worker has.
func (c *core[K]) done(now time.Duration, key K) (took time.Duration, ok bool) {
	c.expire(now)
	e := c.items[key]
	if e == nil || !e.processing {
		return 0, false
	}
	c.processing.remove(e)
	c.startedSum -= e.startedAt
	e.processing = false
	took = now - e.startedAt
	switch e.state {
	case unqueued:
		delete(c.items, key)
		c.recycle(e)
	case dirty:
		e.state = ready
		e.level.dirty--
		c.pushReady(now, e)
	}
	return took, true
}

// drop forgets every waiting key and, if lines is set, every ready and parked one.
func (c *core[K]) drop(lines bool) {
	for _, e := range c.items {
		switch {
		case e.state == waiting:
		case !lines || e.state == unqueued:
			continue
		case e.state == ready:
			c.removeReady(e)
			c.depth--
		case e.state == dirty:
			e.level.dirty--
			c.depth--
		}
		e.state, e.level, e.recorded = unqueued, nil, nil
		if !e.processing {
			delete(c.items, e.key)
		}
	}
	c.waiting = nil
}

// busy reports whether a key is ready, parked or in process.
func (c *core[K]) busy() bool { return c.depth > 0 || c.processing.n > 0 }

func (c *core[K]) stats(now time.Duration) Stats {
	s := Stats{Adds: c.adds, Retries: c.retries, Causes: c.causeCounts, Depth: make(map[int]int, len(c.levels))}
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

// enqueue makes e ready, or parks it if a worker has it.
func (c *core[K]) enqueue(now time.Duration, e *item[K]) {
	e.readyAt = now
	e.level = c.levelOf(e.priority)
	c.adds++
	c.depth++
	if e.processing {
		e.state = dirty
		e.level.dirty++
		return
	}
	e.state = ready
	c.pushReady(now, e)
}

// promote moves a ready or parked entry to the end of a higher priority.
func (c *core[K]) promote(now time.Duration, e *item[K], priority int) {
	e.priority = priority
	if e.state == dirty {
		e.level.dirty--
		c.prune(e.level)
		e.level = c.levelOf(priority)
		e.level.dirty++
		return
	}
	c.removeReady(e)
	e.level = c.levelOf(priority)
	c.pushReady(now, e)
}

func (c *core[K]) levelOf(priority int) *level[K] {
	l := c.levels[priority]
	if l == nil {
		l = &level[K]{priority: priority}
		c.levels[priority] = l
	}
	return l
}

func (c *core[K]) pushReady(now time.Duration, e *item[K]) {
	e.queuedAt = now
	c.byAge.push(e)
	e.level.push(e, c.flowOf)
	if e.level.ready == 1 {
		c.readyLevels.push(e.level)
	}
}

func (c *core[K]) removeReady(e *item[K]) {
	l := e.level
	c.byAge.remove(e)
	l.remove(e)
	if l.ready == 0 {
		c.readyLevels.remove(l.index)
		c.prune(l)
	}
}

// prune forgets an empty level if there are many, so that priorities that are never seen again cost
// nothing.
func (c *core[K]) prune(l *level[K]) {
	if l.len() == 0 && len(c.levels) > maxIdleLevels {
		delete(c.levels, l.priority)
	}
}

func (c *core[K]) newItem(key K) *item[K] {
	e := c.free
	if e == nil {
		if len(c.slab) == 0 {
			c.slab = make([]item[K], min(slabSize, len(c.items)/4+1))
		}
		e, c.slab = &c.slab[0], c.slab[1:]
		e.key = key
		return e
	}
	c.free, e.links[readyLinks].next = e.links[readyLinks].next, nil
	c.nfree--
	e.key = key
	return e
}

func (c *core[K]) recycle(e *item[K]) {
	if c.nfree == maxFreeItems {
		return
	}
	*e = item[K]{}
	e.links[readyLinks].next = c.free
	c.free = e
	c.nfree++
}

// later is now+delay, or the end of time.
func later(now, delay time.Duration) time.Duration {
	if delay > math.MaxInt64-now {
		return math.MaxInt64
	}
	return now + delay
}
