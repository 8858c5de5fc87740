package memory

import (
	"encoding/binary"
	"time"

	"flyball.dev/storage"
)

// expiry is a priority queue of the records that expire, with one timer for the next one. The store's lock guards it.
type expiry struct {
	queue tree // records in the order in which they expire
	timer *time.Timer
	at    time.Time // when the timer fires; zero if it is not running
	// paused is set while the store is loaded: nothing expires then.
	paused bool
}

// epoch is where the queue begins to count. Times that have a monotonic reading, as all of a store do, are compared by it, so
// it does not matter whether the wall clock was set between two writes.
var epoch = time.Now()

// deadline returns the queue key of a record: its expiration time followed by its own key.
func deadline(r *storage.Record) string {
	key := make([]byte, 0, 8+len(r.Key))
	key = binary.BigEndian.AppendUint64(key, uint64(r.Expires.Sub(epoch))^1<<63)
	return string(append(key, r.Key...))
}

// enqueue adds a record that expires.
func (x *expiry) enqueue(r *storage.Record) { x.queue.set(item{key: deadline(r), record: r}) }

// replace updates the queue for a write.
func (x *expiry) replace(s *Store, event *storage.Event) {
	if old := event.Prev; old != nil && !old.Expires.IsZero() {
		x.queue.remove(deadline(old))
	}
	if r := event.Record; event.Type != storage.Deleted && !r.Expires.IsZero() {
		x.enqueue(r)
	}
	x.arm(s)
}

// next returns the record that expires next, or nil.
func (x *expiry) next() *storage.Record {
	n := x.queue.root
	if n == nil {
		return nil
	}
	for !n.leaf {
		n = n.items[0].child
	}
	return n.items[0].record
}

// arm sets the timer for the record that expires next.
func (x *expiry) arm(s *Store) {
	switch next := x.next(); {
	case next == nil, x.paused:
		x.stop()
	case next.Expires.Equal(x.at):
	default:
		x.armAt(s, next.Expires)
	}
}

// armAt sets the timer.
func (x *expiry) armAt(s *Store, at time.Time) {
	x.stop()
	x.at = at
	x.timer = time.AfterFunc(until(at), s.expire)
}

// until returns the time until at, and soon if that has passed.
func until(at time.Time) time.Duration { return max(time.Until(at), soon) }

// soon is the duration of a timer that fires at once. It is not zero: a timer of a testing/synctest bubble without a duration runs on
// the goroutine that starts it, and under the race detector the process crashes in runtime.(*timer).modify if two goroutines of a
// bubble start such timers at the same time, because all timers of a bubble share one context of the detector (go.dev/issue/78156).
const soon = time.Nanosecond

func (x *expiry) stop() {
	if x.timer != nil {
		x.timer.Stop()
	}
	x.timer, x.at = nil, time.Time{}
}

// expire deletes the records that have expired. The timer calls it.
func (s *Store) expire() {
	_ = s.settle(s.removeExpired()) // after an error, the timer runs again
}

// removeExpired deletes the records that have expired, and returns the batch of these writes.
func (s *Store) removeExpired() *batch {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	now := time.Now()
	s.expiry.stop()
	for r := s.expiry.next(); r != nil && !r.Expires.After(now); r = s.expiry.next() {
		revision := s.revision + 1
		s.commit([]*storage.Event{s.remove(r, revision)}, revision)
	}
	s.expiry.arm(s)
	return s.commits.last
}
