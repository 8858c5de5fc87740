package queue

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// model is the queue as one would explain it: a list of tickets, looked through from end to end.
// A ticket is a key's claim to be handed out; a key has at most one.
type model struct {
	tickets []ticket // in the order in which they were issued or became ready
	working []string // keys in process, longest first
	began   map[string]time.Duration
	adds    uint64
	retries uint64
}

type ticket struct {
	key      string
	priority int
	due      time.Duration // not before this
	ready    bool
	since    time.Duration
}

func (m *model) find(key string) int {
	return slices.IndexFunc(m.tickets, func(t ticket) bool { return t.key == key })
}

func (m *model) toEnd(i int) *ticket {
	t := m.tickets[i]
	m.tickets = append(slices.Delete(m.tickets, i, i+1), t)
	return &m.tickets[len(m.tickets)-1]
}

func (m *model) pass(now time.Duration) {
	for {
		next := -1
		for i, t := range m.tickets {
			if !t.ready && t.due <= now && (next < 0 || t.due < m.tickets[next].due) {
				next = i
			}
		}
		if next < 0 {
			return
		}
		t := m.toEnd(next)
		t.ready, t.since = true, t.due
		m.adds++
	}
}

func (m *model) add(now time.Duration, key string, delay time.Duration, priority int) {
	m.pass(now)
	if delay > 0 {
		m.retries++
	}
	i := m.find(key)
	if i < 0 {
		m.tickets = append(m.tickets, ticket{key: key, priority: priority, due: now + max(delay, 0)})
	} else if t := &m.tickets[i]; t.ready {
		if priority > t.priority {
			m.toEnd(i).priority = priority
		}
	} else {
		t.priority = max(t.priority, priority)
		t.due = min(t.due, now+max(delay, 0))
	}
	m.pass(now)
}

func (m *model) take(now time.Duration) (string, int, time.Duration, bool) {
	m.pass(now)
	best := -1
	for i, t := range m.tickets {
		if t.ready && !slices.Contains(m.working, t.key) && (best < 0 || t.priority > m.tickets[best].priority) {
			best = i
		}
	}
	if best < 0 {
		return "", 0, 0, false
	}
	t := m.tickets[best]
	m.tickets = slices.Delete(m.tickets, best, best+1)
	m.working = append(m.working, t.key)
	m.began[t.key] = now
	return t.key, t.priority, now - t.since, true
}

func (m *model) done(now time.Duration, key string) (time.Duration, bool) {
	m.pass(now)
	i := slices.Index(m.working, key)
	if i < 0 {
		return 0, false
	}
	m.working = slices.Delete(m.working, i, i+1)
	if j := m.find(key); j >= 0 && m.tickets[j].ready {
		m.toEnd(j)
	}
	return now - m.began[key], true
}

func (m *model) deadline() (time.Duration, bool) {
	least, ok := time.Duration(0), false
	for _, t := range m.tickets {
		if !t.ready && (!ok || t.due < least) {
			least, ok = t.due, true
		}
	}
	return least, ok
}

func (m *model) drop(lines bool) {
	m.tickets = slices.DeleteFunc(m.tickets, func(t ticket) bool { return lines || !t.ready })
}

func (m *model) stats(now time.Duration) Stats {
	s := Stats{Adds: m.adds, Retries: m.retries, Depth: map[int]int{}}
	for _, t := range m.tickets {
		if t.ready {
			s.Depth[t.priority]++
		}
	}
	for _, key := range m.working {
		s.Unfinished += now - m.began[key]
		s.Longest = max(s.Longest, now-m.began[key])
	}
	return s
}

// FuzzCore runs one history on the core and on the model and compares every answer. Three bytes are
// one event: what, which key, how.
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
		c, m := newCore[string](), &model{began: map[string]time.Duration{}}
		var now time.Duration
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
		c.add(now, key, delay, priority)
		m.add(now, key, delay, priority)
	case 2, 3, 4:
		ck, cp, cs, cok := c.take(now)
		mk, mp, ms, mok := m.take(now)
		got, want = fmt.Sprint("take ", ck, cp, cs, cok), fmt.Sprint("take ", mk, mp, ms, mok)
	case 5, 6:
		if len(m.working) > 0 && how%8 != 0 {
			key = m.working[int(which)%len(m.working)]
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
		t.Fatalf("at %d: %s, the model says %s", now, got, want)
	}
	checkCore(t, c, m, now)
}

func checkCore(t *testing.T, c *core[string], m *model, now time.Duration) {
	c.expire(now)
	m.pass(now)
	got, want := c.stats(now), m.stats(now)
	maps.DeleteFunc(got.Depth, func(_, n int) bool { return n == 0 })
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatalf("at %d: stats %v, the model says %v", now, got, want)
	}
	cd, cok := c.deadline()
	if md, mok := m.deadline(); cd != md || cok != mok {
		t.Fatalf("at %d: deadline %v %v, the model says %v %v", now, cd, cok, md, mok)
	}
	standing, empty := 0, 0
	for _, l := range c.levels {
		standing += l.ready.n
		if l.len() == 0 {
			empty++
		}
		if inHeap := l.index < len(c.lines) && c.lines[l.index] == l; inHeap != (l.ready.n > 0) {
			t.Fatalf("level %d with %d ready keys: in the heap: %v", l.priority, l.ready.n, inHeap)
		}
	}
	if standing != c.standing || empty > keptLevels+1 {
		t.Fatalf("%d keys stand, counted %d; %d empty levels", standing, c.standing, empty)
	}
	if c.busy() != (c.depth > 0 || len(m.working) > 0) || c.working.n != len(m.working) {
		t.Fatalf("%d keys in process, the model says %d", c.working.n, len(m.working))
	}
	for _, e := range c.entries {
		if e.place == nowhere && !e.processing {
			t.Fatalf("key %q is kept for nothing", e.key)
		}
	}
}
