package queue

import (
	"math"
	"time"

	"flyball.dev/ctrl/internal/cause"
)

// place says where a key stands in line. Whether it is being processed is a separate question: a
// key in process may stand nowhere, may be waiting, or may be parked.
type place uint8

const (
	nowhere place = iota // only being processed
	waiting              // its time has not come
	ready                // may be handed out
	parked               // its time has come, but a worker still has it
)

// entry is everything the queue knows about one key.
type entry[K comparable] struct {
	key        K
	place      place
	processing bool
	priority   int
	level      *level[K]     // set while ready or parked
	flow       *flow[K]      // set while ready
	due        time.Duration // when a waiting key becomes ready
	since      time.Duration // when the key became ready or parked
	joined     time.Duration // when a ready key joined the line it is in
	began      time.Duration // when a worker took the key
	order      uint64        // breaks ties among waiting keys
	index      int           // position in the heap of waiting keys
	links      [2]links[K]
	causes     *causes // nil if nobody gave a reason
}

func (e *entry[K]) before(o *entry[K]) bool {
	return e.due < o.due || e.due == o.due && e.order < o.order
}

func (e *entry[K]) moved(i int) { e.index = i }

// causes are those of one key, with room for the first, so that most cost one allocation. They
// belong to the worker as soon as the key is handed out.
type causes struct {
	cause.Causes
	first [1]cause.Cause
}

const (
	// keptLevels is how many priorities keep their level when nothing is in it.
	keptLevels = 32
	// keptEntries bounds the entries kept for the next key.
	keptEntries = 1024
	// entriesAtOnce is how many entries are made together, once there are many: a backlog of
	// thousands costs one allocation for so many keys.
	entriesAtOnce = 32
	// courtesy is how many keys are handed out by priority after one that went first for its age:
	// a backlog that has grown old gets a share of the workers, not all of them.
	courtesy = 7
)

// core is the queue as a state machine: every method is one event, told the time at which it
// happens, and leaves the machine in its next state. Times are counted from the making of the queue
// and never go back. It starts nothing, waits for nothing and locks nothing.
//
// A key is in the machine at most once. It is handed out by take only while no worker has it, so no
// key is ever processed twice at once.
type core[K comparable] struct {
	entries map[K]*entry[K]
	waiting heap[*entry[K]]   // by due time
	levels  map[int]*level[K] // by priority
	lines   heap[*level[K]]   // the levels with a ready key, highest priority first
	arrived list[K]           // ready keys, in the order in which they joined their lines
	working list[K]           // keys in process, longest first

	depth    int           // ready and parked keys
	beganSum time.Duration // sum of began over working
	order    uint64
	adds     uint64 // keys that became ready
	retries  uint64 // adds with a delay

	patience time.Duration  // after which a key may go before higher priorities; 0 means never
	polite   int            // how many keys must go by priority before another may
	flowOf   func(K) string // nil if there is no fairness
	reasons  [cause.Kinds]uint64

	free  *entry[K]
	nfree int
	fresh []entry[K] // never used
}

func newCore[K comparable](patience time.Duration, flowOf func(K) string) core[K] {
	return core[K]{
		entries:  map[K]*entry[K]{},
		levels:   map[int]*level[K]{},
		arrived:  list[K]{by: inAge},
		patience: max(patience, 0),
		flowOf:   flowOf,
	}
}

// add puts key in line, or adjusts the place it has: the earlier time and the higher priority win.
// A nil cause means that there is nothing to remember.
func (c *core[K]) add(now time.Duration, key K, delay time.Duration, priority int, why *cause.Cause) {
	c.expire(now)
	if delay > 0 {
		c.retries++
	}
	e := c.entries[key]
	if e == nil {
		e = c.newEntry(key)
		c.entries[key] = e
	}
	c.because(e, why)
	switch e.place {
	case nowhere:
		e.priority = priority
		if delay <= 0 {
			c.enqueue(now, e)
			return
		}
		c.order++
		e.place, e.due, e.order = waiting, later(now, delay), c.order
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
	case ready, parked:
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

// because remembers a cause for e.
func (c *core[K]) because(e *entry[K], why *cause.Cause) {
	if why == nil {
		c.reasons[cause.Added]++
		if e.causes != nil {
			e.causes.Total++
		}
		return
	}
	c.reasons[why.Kind]++
	if e.causes == nil {
		e.causes = &causes{}
		e.causes.List = e.causes.first[:0]
	}
	e.causes.Add(*why)
}

// take hands out the next key, if there is one: it fills in t but for the time of day.
func (c *core[K]) take(now time.Duration, t *Ticket[K]) bool {
	c.expire(now)
	if len(c.lines) == 0 {
		return false
	}
	e := c.next(now)
	e.level.served(e.flow)
	c.leaveLine(e)
	c.depth--
	t.Key, t.Priority = e.key, e.priority
	if e.causes != nil {
		t.Causes = e.causes.Causes
		e.causes = nil
	}
	t.Causes.Waited = now - e.since
	e.place, e.level = nowhere, nil
	e.processing, e.began = true, now
	c.working.push(e)
	c.beganSum += now
	return true
}

// next chooses the first key of the flow whose turn it is at the highest priority, or the key that
// stands longest, if that is long enough.
func (c *core[K]) next(now time.Duration) *entry[K] {
	top, oldest := c.lines[0], c.arrived.head
	if oldest.level == top || c.patience == 0 || now-oldest.joined < c.patience {
		return top.turn.ready.head
	}
	if c.polite > 0 {
		c.polite--
		return top.turn.ready.head
	}
	c.polite = courtesy
	return oldest
}

// done ends the processing of key and says how long it took. A key that was added meanwhile takes
// its place at the end of its line. It does nothing for a key that no worker has.
func (c *core[K]) done(now time.Duration, key K) (took time.Duration, ok bool) {
	c.expire(now)
	e := c.entries[key]
	if e == nil || !e.processing {
		return 0, false
	}
	c.working.remove(e)
	c.beganSum -= e.began
	e.processing = false
	took = now - e.began
	switch e.place {
	case nowhere:
		delete(c.entries, key)
		c.recycle(e)
	case parked:
		e.place = ready
		e.level.parked--
		c.joinLine(now, e)
	}
	return took, true
}

// drop forgets every waiting key and, if lines is set, every ready and parked one.
func (c *core[K]) drop(lines bool) {
	for _, e := range c.entries {
		switch {
		case e.place == waiting:
		case !lines || e.place == nowhere:
			continue
		case e.place == ready:
			c.leaveLine(e)
			c.depth--
		case e.place == parked:
			e.level.parked--
			c.depth--
		}
		e.place, e.level, e.causes = nowhere, nil, nil
		if !e.processing {
			delete(c.entries, e.key)
		}
	}
	c.waiting = nil
}

// busy reports whether a key is ready, parked or in process.
func (c *core[K]) busy() bool { return c.depth > 0 || c.working.n > 0 }

func (c *core[K]) stats(now time.Duration) Stats {
	s := Stats{Adds: c.adds, Retries: c.retries, Causes: c.reasons, Depth: make(map[int]int, len(c.levels))}
	for priority, l := range c.levels {
		s.Depth[priority] = l.len()
	}
	if n := c.working.n; n > 0 {
		s.Unfinished = time.Duration(n)*now - c.beganSum
		s.Longest = now - c.working.head.began
	}
	if oldest := c.arrived.head; oldest != nil {
		s.Oldest = now - oldest.joined
	}
	return s
}

// enqueue makes e ready, or parks it if a worker has it.
func (c *core[K]) enqueue(now time.Duration, e *entry[K]) {
	e.since = now
	e.level = c.levelOf(e.priority)
	c.adds++
	c.depth++
	if e.processing {
		e.place = parked
		e.level.parked++
		return
	}
	e.place = ready
	c.joinLine(now, e)
}

// promote moves a ready or parked entry to the end of a higher priority.
func (c *core[K]) promote(now time.Duration, e *entry[K], priority int) {
	e.priority = priority
	if e.place == parked {
		e.level.parked--
		c.prune(e.level)
		e.level = c.levelOf(priority)
		e.level.parked++
		return
	}
	c.leaveLine(e)
	e.level = c.levelOf(priority)
	c.joinLine(now, e)
}

func (c *core[K]) levelOf(priority int) *level[K] {
	l := c.levels[priority]
	if l == nil {
		l = &level[K]{priority: priority}
		c.levels[priority] = l
	}
	return l
}

func (c *core[K]) joinLine(now time.Duration, e *entry[K]) {
	e.joined = now
	c.arrived.push(e)
	e.level.join(e, c.flowOf)
	if e.level.ready == 1 {
		c.lines.push(e.level)
	}
}

func (c *core[K]) leaveLine(e *entry[K]) {
	l := e.level
	c.arrived.remove(e)
	l.leave(e)
	if l.ready == 0 {
		c.lines.remove(l.index)
		c.prune(l)
	}
}

// prune forgets an empty level if there are many, so that priorities that are never seen again cost
// nothing.
func (c *core[K]) prune(l *level[K]) {
	if l.len() == 0 && len(c.levels) > keptLevels {
		delete(c.levels, l.priority)
	}
}

func (c *core[K]) newEntry(key K) *entry[K] {
	e := c.free
	if e == nil {
		if len(c.fresh) == 0 {
			c.fresh = make([]entry[K], min(entriesAtOnce, len(c.entries)/4+1))
		}
		e, c.fresh = &c.fresh[0], c.fresh[1:]
		e.key = key
		return e
	}
	c.free, e.links[inLine].next = e.links[inLine].next, nil
	c.nfree--
	e.key = key
	return e
}

func (c *core[K]) recycle(e *entry[K]) {
	if c.nfree == keptEntries {
		return
	}
	*e = entry[K]{}
	e.links[inLine].next = c.free
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
