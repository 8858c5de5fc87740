package queue

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"flyball.dev/ctrl/internal/cause"
)

// model is the reference implementation of the queue: a list that is searched from end to end. A
// key has at most one claim to be handed out.
type model struct {
	claims      []claim  // in the order in which they were made or queued
	processing  []string // keys in process, longest first
	began       map[string]time.Duration
	adds        uint64
	retries     uint64
	causeCounts [cause.Kinds]uint64

	agingThreshold time.Duration
	agingCountdown int              // keys to hand out by priority before the next aged one
	fair           bool             // flows take turns
	turns          map[int][]string // by priority, the flows with ready keys; the first is served next
}

type claim struct {
	key       string
	priority  int
	due       time.Duration // not before this
	ready     bool
	readyAt   time.Duration // when it became ready
	queuedAt  time.Duration // when it was queued in its present place
	why       []cause.Cause
	additions int
}

// flowOf puts several keys into each flow.
func flowOf(key string) string { return fmt.Sprint(key[0] % 3) }

func newModel(aging time.Duration, fair bool) *model {
	return &model{agingThreshold: aging, fair: fair, began: map[string]time.Duration{}, turns: map[int][]string{}}
}

func (m *model) find(key string) int {
	return slices.IndexFunc(m.claims, func(t claim) bool { return t.key == key })
}

func (m *model) toEnd(i int) *claim {
	t := m.claims[i]
	m.claims = append(slices.Delete(m.claims, i, i+1), t)
	return &m.claims[len(m.claims)-1]
}

func (m *model) flow(key string) string {
	if m.fair {
		return flowOf(key)
	}
	return ""
}

// available reports whether a claim may be handed out.
func (m *model) available(t claim) bool { return t.ready && !slices.Contains(m.processing, t.key) }

// updateTurns gives every flow with available keys a place in its priority's turns.
func (m *model) updateTurns() {
	for priority, flows := range m.turns {
		m.turns[priority] = slices.DeleteFunc(flows, func(f string) bool {
			return !slices.ContainsFunc(m.claims, func(t claim) bool {
				return m.available(t) && t.priority == priority && m.flow(t.key) == f
			})
		})
	}
	for _, t := range m.claims {
		if f := m.flow(t.key); m.available(t) && !slices.Contains(m.turns[t.priority], f) {
			m.turns[t.priority] = append(m.turns[t.priority], f)
		}
	}
}

func (m *model) pass(now time.Duration) {
	for {
		next := -1
		for i, t := range m.claims {
			if !t.ready && t.due <= now && (next < 0 || t.due < m.claims[next].due) {
				next = i
			}
		}
		if next < 0 {
			return
		}
		t := m.toEnd(next)
		t.ready, t.readyAt, t.queuedAt = true, t.due, t.due
		m.adds++
		m.updateTurns()
	}
}

func (m *model) add(now time.Duration, key string, delay time.Duration, priority int, why *cause.Cause) {
	m.pass(now)
	if delay > 0 {
		m.retries++
	}
	i := m.find(key)
	if i < 0 {
		i = len(m.claims)
		m.claims = append(m.claims, claim{key: key, priority: priority, due: now + max(delay, 0)})
	} else if t := &m.claims[i]; t.ready {
		if priority > t.priority {
			t = m.toEnd(i)
			t.priority, t.queuedAt = priority, now
			i = len(m.claims) - 1
		}
	} else {
		t.priority = max(t.priority, priority)
		t.due = min(t.due, now+max(delay, 0))
	}
	m.recordCause(&m.claims[i], why)
	m.pass(now)
	m.updateTurns()
}

func (m *model) recordCause(t *claim, why *cause.Cause) {
	if why == nil {
		m.causeCounts[cause.Added]++
		if len(t.why) > 0 {
			t.additions++
		}
		return
	}
	m.causeCounts[why.Kind]++
	t.additions++
	i := slices.IndexFunc(t.why, func(c cause.Cause) bool { return c.Kind == why.Kind && c.Object == why.Object })
	if i >= 0 {
		t.why[i] = *why
	} else if len(t.why) < cause.Max {
		t.why = append(t.why, *why)
	}
}

// choose is the first claim of the first flow of the highest priority, unless aging selects the one
// that has been queued longest.
func (m *model) choose(now time.Duration) int {
	first, oldest := -1, -1
	for i, t := range m.claims {
		if !m.available(t) {
			continue
		}
		if oldest < 0 {
			oldest = i
		}
		if (first < 0 || t.priority > m.claims[first].priority) && m.flow(t.key) == m.turns[t.priority][0] {
			first = i
		}
	}
	if first < 0 || m.agingThreshold <= 0 || now-m.claims[oldest].queuedAt < m.agingThreshold ||
		m.claims[oldest].priority == m.claims[first].priority {
		return first
	}
	if m.agingCountdown > 0 {
		m.agingCountdown--
		return first
	}
	m.agingCountdown = 7
	return oldest
}

func (m *model) take(now time.Duration) (claim, bool) {
	m.pass(now)
	i := m.choose(now)
	if i < 0 {
		return claim{}, false
	}
	t := m.claims[i]
	m.claims = slices.Delete(m.claims, i, i+1)
	m.processing = append(m.processing, t.key)
	m.began[t.key] = now
	turns := m.turns[t.priority]
	if f := m.flow(t.key); turns[0] == f {
		m.turns[t.priority] = append(turns[1:len(turns):len(turns)], f)
	}
	m.updateTurns()
	return t, true
}

func (m *model) done(now time.Duration, key string) (time.Duration, bool) {
	m.pass(now)
	i := slices.Index(m.processing, key)
	if i < 0 {
		return 0, false
	}
	m.processing = slices.Delete(m.processing, i, i+1)
	if j := m.find(key); j >= 0 && m.claims[j].ready {
		m.toEnd(j).queuedAt = now
	}
	m.updateTurns()
	return now - m.began[key], true
}

func (m *model) deadline() (time.Duration, bool) {
	least, ok := time.Duration(0), false
	for _, t := range m.claims {
		if !t.ready && (!ok || t.due < least) {
			least, ok = t.due, true
		}
	}
	return least, ok
}

func (m *model) drop(queued bool) {
	m.claims = slices.DeleteFunc(m.claims, func(t claim) bool { return queued || !t.ready })
	m.updateTurns()
}

func (m *model) stats(now time.Duration) Stats {
	s := Stats{Adds: m.adds, Retries: m.retries, Causes: m.causeCounts, Depth: map[int]int{}}
	for _, t := range m.claims {
		if t.ready {
			s.Depth[t.priority]++
		}
	}
	if i := slices.IndexFunc(m.claims, m.available); i >= 0 {
		s.Oldest = now - m.claims[i].queuedAt
	}
	for _, key := range m.processing {
		s.Unfinished += now - m.began[key]
		s.Longest = max(s.Longest, now-m.began[key])
	}
	return s
}

// FuzzCore runs one history on the core and on the model and compares every result. Three bytes are
// one event: what, which key, how. Histories are long, so fuzz with -fuzzminimizetime 5x: otherwise
// all the time goes into making them shorter.
func FuzzCore(f *testing.F) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		history := make([]byte, 900)
		for i := range history {
			history[i] = byte(rnd.Uint32())
		}
		f.Add(history)
	}
	f.Add([]byte{0, 1, 0, 2, 0, 0, 0, 1, 0, 3, 0, 0, 2, 0, 0}) // added in process, handed out once more
	f.Fuzz(func(t *testing.T, history []byte) {
		aging, fair := time.Duration(0), false
		if len(history) > 0 {
			aging, fair = time.Duration(history[0]%64-8), history[0]>>6%2 == 1
		}
		c, m := newCore[string](aging, nil), newModel(aging, fair)
		if fair {
			c.flowOf = flowOf
		}
		var now time.Duration
		history = history[:min(len(history), 3000)] // the model is slow
		for len(history) >= 3 {
			what, which, how := history[0]%8, history[1], history[2]
			history = history[3:]
			now += time.Duration(how % 4)
			step(t, &c, m, now, what, which, how)
		}
	})
}

func step(t *testing.T, c *core[string], m *model, now time.Duration, what, which, how byte) {
	key := fmt.Sprint(which % 9)
	var got, want string
	switch what {
	case 0, 1:
		// Mostly few priorities, sometimes many, so that levels are forgotten.
		priority := int(how>>2) % 3
		if which > 200 {
			priority = int(how)
		}
		delay := time.Duration(0)
		if what == 1 {
			delay = time.Duration(how>>4) - 1
		}
		why := reason(which, how)
		c.add(now, key, delay, priority, why)
		m.add(now, key, delay, priority, why)
	case 2, 3, 4:
		var ct Item[string]
		cok := c.take(now, &ct)
		mt, mok := m.take(now)
		got = fmt.Sprint("take ", ct.Key, ct.Priority, ct.Causes.Waited, ct.Causes.List, ct.Causes.Total, cok)
		want = fmt.Sprint("take ", mt.key, mt.priority, now-mt.readyAt, mt.why, mt.additions, mok)
		if !cok && !mok {
			got, want = "", ""
		}
	case 5, 6:
		if len(m.processing) > 0 && how%8 != 0 {
			key = m.processing[int(which)%len(m.processing)]
		}
		ct, cok := c.done(now, key)
		mt, mok := m.done(now, key)
		got, want = fmt.Sprint("done ", key, ct, cok), fmt.Sprint("done ", key, mt, mok)
	case 7:
		if which < 4 {
			c.expire(now)
			m.pass(now)
			c.drop(which < 2)
			m.drop(which < 2)
		}
	}
	if got != want {
		t.Fatalf("at %d: %s, the model has %s", now, got, want)
	}
	checkCore(t, c, m, now)
}

// reason is one of a few causes, or none.
func reason(which, how byte) *cause.Cause {
	if how%5 == 0 {
		return nil
	}
	c := &cause.Cause{Kind: cause.Kind(how) % cause.Kinds, ResourceVersion: fmt.Sprint(which)}
	c.Object.Name = fmt.Sprint("o", which%4)
	return c
}

// checkRing goes once around the flows of a level.
func checkRing(t *testing.T, l *level[string]) {
	t.Helper()
	keys, flows := 0, 0
	for f := l.current; f != nil; {
		if f.ready.n == 0 || f.next.prev != f {
			t.Fatalf("flow %q of level %d has %d keys", f.name, l.priority, f.ready.n)
		}
		keys += f.ready.n
		flows++
		if f = f.next; f == l.current {
			break
		}
	}
	if keys != l.ready || len(l.flows) > flows {
		t.Fatalf("level %d: %d keys in its flows, counted %d; %d flows of %d", l.priority, keys, l.ready, flows, len(l.flows))
	}
}

func checkCore(t *testing.T, c *core[string], m *model, now time.Duration) {
	c.expire(now)
	m.pass(now)
	got, want := c.stats(now), m.stats(now)
	maps.DeleteFunc(got.Depth, func(_, n int) bool { return n == 0 })
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatalf("at %d: stats %v, the model has %v", now, got, want)
	}
	cd, cok := c.deadline()
	if md, mok := m.deadline(); cd != md || cok != mok {
		t.Fatalf("at %d: deadline %v %v, the model has %v %v", now, cd, cok, md, mok)
	}
	queued, empty := 0, 0
	for _, l := range c.levels {
		queued += l.ready
		checkRing(t, l)
		if l.len() == 0 {
			empty++
		}
		if inHeap := l.index < len(c.readyLevels) && c.readyLevels[l.index] == l; inHeap != (l.ready > 0) {
			t.Fatalf("level %d with %d ready keys: in the heap: %v", l.priority, l.ready, inHeap)
		}
	}
	if queued != c.byAge.n || empty > maxIdleLevels+1 {
		t.Fatalf("%d keys are ready, counted %d; %d empty levels", queued, c.byAge.n, empty)
	}
	if c.busy() != (c.depth > 0 || len(m.processing) > 0) || c.processing.n != len(m.processing) {
		t.Fatalf("%d keys in process, the model has %d", c.processing.n, len(m.processing))
	}
	for _, e := range c.items {
		if e.state == unqueued && !e.processing {
			t.Fatalf("key %q is kept without need", e.key)
		}
	}
}
