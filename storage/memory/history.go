package memory

import (
	"slices"
	"sort"
	"time"

	"flyball.dev/internal/invariants"
	"flyball.dev/storage"
)

const (
	// overhead is the approximate size of an event without its values, in bytes.
	overhead = 256
	// Replaced records keep their cached values for watchers that lag a little: the latest cachedEvents events do, as
	// long as they cost at most one cachedShare-th of the history. Cached values are several times as large as encoded
	// values.
	cachedEvents = 1024
	cachedShare  = 8
	// The age of events is counted in ticks; the retention is a number of ticks. Events older than youngTicks may take
	// one oldShare-th of the size of the history, and have no cached values. The store therefore forgets a burst of
	// writes soon, and remembers a few writes for long.
	ticks      = 10
	youngTicks = 2
	oldShare   = 8
)

// history is the log of writes. The store's lock guards it.
type history struct {
	size      int
	retention time.Duration

	// log holds the events of the revisions after compacted, at least one for each except in a [Replica]. Its elements
	// never change, so a slice of it can be read without the lock.
	log       []*storage.Event
	compacted uint64
	// reset is the revision of the last Reset, or zero.
	reset uint64
	bytes int // the cost of the events in log

	// dropped is the revision up to which replaced records have lost their cached values. cachedBytes is the cost of
	// the events since then.
	dropped     uint64
	cachedBytes int

	// shared is the revision of the last Fork, of this store or by which it came into being; zero for none.
	shared uint64

	// timer runs while log is not empty, and fires at each tick. marks holds the latest revisions at the last ticks,
	// the oldest first.
	timer *time.Timer
	marks []uint64
}

var _ storage.Historian = (*Store)(nil)

// HistorySize implements [storage.Historian]. The size is at most about twice Options.History.
func (s *Store) HistorySize() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.history.bytes
}

// after returns the events after a revision. The revision must not be compacted.
func (h *history) after(revision uint64) []*storage.Event {
	return h.log[h.index(revision):]
}

// between returns the events after one revision up to another. The revisions must not be compacted.
func (h *history) between(after, until uint64) []*storage.Event {
	return h.log[h.index(after):h.index(until)]
}

// index returns the index of the first event after a revision. Most often, each revision has one event, so index need not
// search.
func (h *history) index(revision uint64) int {
	i := int(min(revision-h.compacted, uint64(len(h.log))))
	if (i == 0 || h.log[i-1].Record.Revision <= revision) && (i == len(h.log) || h.log[i].Record.Revision > revision) {
		return i
	}
	return sort.Search(len(h.log), func(i int) bool { return h.log[i].Record.Revision > revision })
}

// cost returns the approximate number of bytes that the log retains for an event.
func cost(e *storage.Event) int {
	if e.Prev == nil {
		return overhead
	}
	return overhead + e.Prev.Size()
}

// costs returns the sum of the costs of events.
func costs(events []*storage.Event) int {
	sum := 0
	for _, e := range events {
		sum += cost(e)
	}
	return sum
}

// append adds the events of the latest transaction to the log, and compacts the log if it is too large. The caller holds
// the lock.
func (s *Store) append(events []*storage.Event) {
	h := &s.history
	if h.timer == nil {
		h.marks = []uint64{min(s.visible, s.revision-1)}
		h.timer = time.AfterFunc(h.retention/ticks, s.compactByTime)
	}
	h.log = append(h.log, events...)
	bytes := costs(events)
	h.bytes += bytes
	h.cachedBytes += bytes
	if h.bytes > 2*h.size {
		s.compact(s.fitting())
	}
	for s.revision-h.dropped > cachedEvents || h.cachedBytes > h.size/cachedShare {
		h.dropCached(h.dropped + 1)
	}
}

// fitting returns the revision after which the visible events fit into the size of the history. The caller holds the
// lock.
func (s *Store) fitting() uint64 {
	h := &s.history
	revision, bytes := h.compacted, h.bytes
	for _, e := range h.between(h.compacted, s.visible) {
		if e.Record.Revision > revision && bytes <= h.size {
			break
		}
		revision = e.Record.Revision
		bytes -= cost(e)
	}
	return revision
}

// compactByTime compacts events that are too old, and old events if they take too much room. It also drops the cached
// values of old events. The timer calls it.
func (s *Store) compactByTime() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	h := &s.history
	if revision := h.expired(); revision > h.compacted {
		s.compact(revision)
	}
	if n := len(h.marks); n >= youngTicks {
		h.dropCached(h.marks[n-youngTicks])
	}
	if len(h.log) == 0 {
		h.timer, h.marks = nil, nil
		return
	}
	h.marks = append(h.marks, s.visible)
	h.timer.Reset(h.retention / ticks)
}

// expired returns the revision up to which compactByTime compacts events.
func (h *history) expired() uint64 {
	expired := h.compacted
	if len(h.marks) >= ticks {
		expired = max(expired, h.marks[0])
		h.marks = slices.Delete(h.marks, 0, 1)
	}
	if len(h.marks) < youngTicks {
		return expired
	}
	old := max(expired, h.marks[len(h.marks)-youngTicks])
	bytes := 0
	for revision := old; revision > expired; revision-- {
		if bytes += costs(h.between(revision-1, revision)); bytes > h.size/oldShare {
			return revision
		}
	}
	return expired
}

// compact drops the events and the snapshots up to a revision. It copies the rest of the log, because other goroutines
// may be reading the old log without the lock. The caller holds the lock.
func (s *Store) compact(revision uint64) {
	h := &s.history
	h.dropCached(revision)
	kept := h.after(revision)
	h.bytes -= costs(h.log[:len(h.log)-len(kept)])
	h.log = append(make([]*storage.Event, 0, 2*len(kept)), kept...)
	h.compacted = revision
	if invariants.Enabled {
		s.checkHistory()
	}
	s.snapshots.compact(revision)
}

// dropCached drops the cached values of records that were replaced up to a revision.
func (h *history) dropCached(revision uint64) {
	if revision <= h.dropped {
		return
	}
	for _, e := range h.between(h.dropped, revision) {
		h.cachedBytes -= cost(e)
		if e.Prev != nil && !h.isShared(e.Prev) {
			entryOf(e.Prev).dropCached()
		}
		if e.Type == storage.Deleted {
			entryOf(e.Record).dropCached()
		}
	}
	h.dropped = revision
}

func (h *history) stop() {
	if h.timer != nil {
		h.timer.Stop()
	}
}
