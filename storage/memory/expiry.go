package memory

import (
	"container/heap"
	"time"

	"flyball.dev/storage"
)

// expiry knows which record expires next, and has one timer for it. It is guarded by the store's lock.
type expiry struct {
	queue deadlines
	byKey map[string]*deadline
	timer *time.Timer
	at    time.Time // when the timer fires; zero if it is not running
}

type deadline struct {
	record *storage.Record
	index  int
}

// replace takes notice of a write.
func (x *expiry) replace(s *Store, event *storage.Event) {
	if old := event.Prev; old != nil && !old.Expires.IsZero() {
		heap.Remove(&x.queue, x.byKey[old.Key].index)
		delete(x.byKey, old.Key)
	}
	if r := event.Record; event.Type != storage.Deleted && !r.Expires.IsZero() {
		if x.byKey == nil {
			x.byKey = map[string]*deadline{}
		}
		d := &deadline{record: r}
		x.byKey[r.Key] = d
		heap.Push(&x.queue, d)
	}
	x.arm(s)
}

// arm sets the timer for the record that expires next.
func (x *expiry) arm(s *Store) {
	switch {
	case len(x.queue) == 0:
		x.stop()
	case x.queue[0].record.Expires.Equal(x.at):
	default:
		x.stop()
		x.at = x.queue[0].record.Expires
		x.timer = time.AfterFunc(time.Until(x.at), s.expire)
	}
}

func (x *expiry) stop() {
	if x.timer != nil {
		x.timer.Stop()
	}
	x.timer, x.at = nil, time.Time{}
}

// expire deletes the records whose time has come.
func (s *Store) expire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	now := time.Now()
	s.expiry.stop()
	for len(s.expiry.queue) > 0 && !s.expiry.queue[0].record.Expires.After(now) {
		s.remove(s.expiry.queue[0].record)
	}
	s.expiry.arm(s)
}

// deadlines is a heap, the earliest first.
type deadlines []*deadline

func (d deadlines) Len() int           { return len(d) }
func (d deadlines) Less(i, j int) bool { return d[i].record.Expires.Before(d[j].record.Expires) }

func (d deadlines) Swap(i, j int) {
	d[i], d[j] = d[j], d[i]
	d[i].index, d[j].index = i, j
}

func (d *deadlines) Push(v any) {
	x := v.(*deadline)
	x.index = len(*d)
	*d = append(*d, x)
}

func (d *deadlines) Pop() any {
	last := len(*d) - 1
	x := (*d)[last]
	(*d)[last] = nil
	*d = (*d)[:last]
	return x
}
