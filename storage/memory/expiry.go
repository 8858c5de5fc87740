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

// deadline returns the queue key of a record: its expiration time followed by its own key.
func deadline(r *storage.Record) string {
	key := make([]byte, 0, 12+len(r.Key))
	key = binary.BigEndian.AppendUint64(key, uint64(r.Expires.Unix())^1<<63)
	key = binary.BigEndian.AppendUint32(key, uint32(r.Expires.Nanosecond()))
	return string(append(key, r.Key...))
}

// replace updates the queue for a write.
func (x *expiry) replace(s *Store, event *storage.Event) {
	if old := event.Prev; old != nil && !old.Expires.IsZero() {
		x.queue.remove(deadline(old))
	}
	if r := event.Record; event.Type != storage.Deleted && !r.Expires.IsZero() {
		x.queue.put(deadline(r), r)
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
	x.timer = time.AfterFunc(time.Until(at), s.expire)
}

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
