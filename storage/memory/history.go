package memory

import (
	"time"

	"flyball.dev/storage"
)

const (
	// overhead is about what an event takes besides values.
	overhead = 256
	// warmEvents is how many events back the memos of records that were replaced are kept, for watchers
	// that are a little behind, and warmShare the share of the history that they may be of. Memos are
	// several times as large as values.
	warmEvents = 1024
	warmShare  = 8
)

// history is the log of writes. It is guarded by the store's lock.
type history struct {
	size      int
	retention time.Duration

	// log holds one event for each revision after compacted. Its elements never change once they are
	// there, so a slice of it can be read without the lock.
	log       []*storage.Event
	compacted uint64
	past      int // bytes that are there because of the log

	// warm is the revision after which records that were replaced have memos, if they ever had any, and
	// warmth the bytes of the log since.
	warm   uint64
	warmth int

	// While there are events the timer is running. All those up to mark were there when it was set.
	timer *time.Timer
	mark  uint64
}

// after returns the events after a revision that is not compacted.
func (h *history) after(revision uint64) []*storage.Event {
	return h.log[revision-h.compacted:]
}

// cost is about how many bytes would be free without an event.
func cost(e *storage.Event) int {
	if e.Prev == nil {
		return overhead
	}
	return overhead + len(e.Prev.Value)
}

// remember adds the event of the latest write to the log, and makes room for it. The lock is held.
func (s *Store) remember(event *storage.Event) {
	h := &s.history
	if h.timer == nil {
		h.mark = s.revision - 1
		h.timer = time.AfterFunc(h.retention, s.age)
	}
	h.log = append(h.log, event)
	h.past += cost(event)
	h.warmth += cost(event)
	if h.past > 2*h.size {
		n, past := 0, h.past
		for ; past > h.size && n < len(h.log); n++ {
			past -= cost(h.log[n])
		}
		s.compact(h.compacted + uint64(n))
	}
	for s.revision-h.warm > warmEvents || h.warmth > h.size/warmShare {
		h.cool(h.warm + 1)
	}
}

// age forgets what was there when it was called last. The timer calls it.
func (s *Store) age() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	h := &s.history
	if h.mark > h.compacted {
		s.compact(h.mark)
	}
	if len(h.log) == 0 {
		h.timer = nil
		return
	}
	h.mark = s.revision
	h.timer.Reset(h.retention)
}

// compact drops the events up to a revision, and the snapshots before it. Others may be reading the log,
// so what is left of it moves to a new one. The lock is held.
func (s *Store) compact(revision uint64) {
	h := &s.history
	h.cool(revision)
	kept := h.after(revision)
	for _, e := range h.log[:len(h.log)-len(kept)] {
		h.past -= cost(e)
	}
	h.log = append(make([]*storage.Event, 0, 2*len(kept)), kept...)
	h.compacted = revision
	s.snapshots.compact(revision)
}

// cool drops the memos of records that were replaced up to a revision.
func (h *history) cool(revision uint64) {
	for ; h.warm < revision; h.warm++ {
		e := h.after(h.warm)[0]
		h.warmth -= cost(e)
		if e.Prev != nil {
			e.Prev.Forget()
		}
		if e.Type == storage.Deleted {
			e.Record.Forget()
		}
	}
}

func (h *history) stop() {
	if h.timer != nil {
		h.timer.Stop()
	}
}
