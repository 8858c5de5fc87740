package queue

import (
	"slices"
	"time"

	"flyball.dev/ctrl/internal/cause"
)

// Queued is a key of a queue, for a person who looks at it.
type Queued[K comparable] struct {
	Key      K
	Priority int
	Causes   cause.Causes
	// Since is when the key became ready, or was handed out if it is in process.
	Since time.Time
	// Due is when a waiting key becomes ready.
	Due time.Time
	// Again is whether a key in process is to be processed once more.
	Again bool
}

// Snapshot is the content of a queue at one moment.
type Snapshot[K comparable] struct {
	// Ready, Waiting and Processing are the numbers of keys. Ready includes the keys in process that are due again.
	Ready, Waiting, Processing int
	Depth                      map[int]int // the keys of Ready by priority
	Oldest                     time.Duration

	// The keys of a page: ready and waiting keys from the offset on, and the keys that are in process for longest.
	ReadyKeys, WaitingKeys, ProcessingKeys []Queued[K]
}

// Inspector is a queue that can be looked at.
type Inspector[K comparable] interface {
	// Snapshot returns the content. It has at most limit ready keys and limit waiting keys, from the offset on, in the
	// order of their times, and limit keys in process. The causes are copies. The queue is locked meanwhile, for a time
	// that grows with offset+limit, and not with the queue.
	Snapshot(offset, limit int) Snapshot[K]
	// Find returns where one key is. It returns false if the queue does not have it.
	Find(key K) (q Queued[K], state string, ok bool)
}

// Snapshot implements [Inspector].
func (q *Queue[K]) Snapshot(offset, limit int) Snapshot[K] {
	q.mu.Lock()
	defer q.mu.Unlock()
	c := &q.core
	c.expire(q.now())
	stats := c.stats(q.last)
	s := Snapshot[K]{
		Ready: c.depth, Waiting: len(c.waiting), Processing: c.processing.n, Depth: stats.Depth, Oldest: stats.Oldest,
	}
	if limit <= 0 {
		return s
	}
	n := 0
	for it := c.byAge.head; it != nil && n < offset+limit; it = it.links[ageLinks].next {
		if n >= offset {
			s.ReadyKeys = append(s.ReadyKeys, q.queued(it))
		}
		n++
	}
	n = 0
	for it := range first(c.waiting, offset+limit) {
		if n >= offset {
			s.WaitingKeys = append(s.WaitingKeys, q.queued(it))
		}
		n++
	}
	for it := c.processing.head; it != nil && len(s.ProcessingKeys) < limit; it = it.links[readyLinks].next {
		s.ProcessingKeys = append(s.ProcessingKeys, q.queued(it))
	}
	return s
}

// Find implements [Inspector].
func (q *Queue[K]) Find(key K) (found Queued[K], state string, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.core.expire(q.now())
	it := q.core.items[key]
	if it == nil {
		return found, "", false
	}
	found = q.queued(it)
	switch {
	case it.processing:
		state = "processing"
	case it.state == waiting:
		state = "waiting"
	default:
		state = "ready"
	}
	return found, state, true
}

// queued describes an item. The caller holds the lock.
func (q *Queue[K]) queued(it *item[K]) Queued[K] {
	entry := Queued[K]{Key: it.key, Priority: it.priority}
	if it.recorded != nil {
		entry.Causes = it.recorded.Causes
		entry.Causes.List = slices.Clone(it.recorded.List)
	}
	switch {
	case it.processing:
		entry.Since = q.epoch.Add(it.startedAt)
		entry.Again = it.state == dirty
	case it.state == waiting:
	default:
		entry.Since = q.epoch.Add(it.readyAt)
	}
	if it.state == waiting {
		entry.Due = q.epoch.Add(it.due)
	}
	return entry
}
