package memory

import (
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"flyball.dev/storage"
	"flyball.dev/storage/internal/dictionary"
)

const (
	// A collection gets a dictionary when trainSize bytes of it are at rest, and a new one whenever
	// retrainSize more were compressed, because what it contains may have changed. A dictionary is
	// trained with maxSamples values.
	trainSize, retrainSize = 256 << 10, 64 << 20
	maxSamples             = 256
	// Memory is returned to the operating system when values of returnSize bytes were put to rest, and
	// awakeShare times as many records as are awake, so that it is not needed again at once. Without
	// that it is collected only when as much again has been allocated.
	returnSize, awakeShare = 4 << 20, 8
	// minRetired is how many retired records at least are awake before they are removed.
	minRetired = 1024
)

// rest puts records to rest that are not used.
type rest struct {
	interval time.Duration

	// awake has the records that are not at rest, and some that are retired. It and timer, which runs
	// while it is not empty, are guarded by the store's lock.
	awake []*storage.Record
	timer *time.Timer

	// stopped is set when the store is closed. sweeping is held by a sweep, which alone uses what
	// follows.
	stopped     atomic.Bool
	sweeping    sync.Mutex
	collections map[string]*collection
	// bytes and records were put to rest since memory was returned.
	bytes, records int
}

// collection compresses records whose keys have the first two elements in common, because their
// values are likely to resemble each other.
type collection struct {
	encoder *dictionary.Encoder // nil before there is a dictionary
	// pending are records at rest that are not compressed yet.
	pending []*storage.Record
	// bytes is the size of those that are pending, or were compressed with the encoder.
	bytes int
}

// add adds records that are awake. The store's lock is held.
func (r *rest) add(s *Store, records ...*storage.Record) {
	r.awake = append(r.awake, records...)
	for _, record := range records {
		record.Wake()
	}
	if r.timer == nil && len(r.awake) > 0 {
		r.timer = time.AfterFunc(r.interval, s.sweep)
	}
}

// prune removes the retired records if most are, given how many are not. The lock is held.
func (r *rest) prune(current int) {
	if len(r.awake) >= 2*current+minRetired {
		r.awake = slices.DeleteFunc(r.awake, (*storage.Record).Retired)
	}
}

// wake wakes a record that is handed out, or nil. The lock is held.
func (s *Store) wake(r *storage.Record) {
	if r != nil && r.Wake() {
		s.rest.add(s, r)
	}
}

// wakeAll wakes records that are handed out.
func (s *Store) wakeAll(records []*storage.Record) {
	var woken []*storage.Record
	for _, r := range records {
		if r.Wake() {
			woken = append(woken, r)
		}
	}
	if len(woken) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.rest.add(s, woken...)
	}
}

// stop ends the timer, and makes a sweep end early. The lock is held.
func (r *rest) stop() {
	r.stopped.Store(true)
	if r.timer != nil {
		r.timer.Stop()
	}
	r.awake = nil
}

// wait waits for a sweep to end.
func (r *rest) wait() {
	r.sweeping.Lock()
	defer r.sweeping.Unlock()
	r.collections = nil
}

// sweep puts the records to rest that were not used since the last sweep. The timer calls it.
func (s *Store) sweep() {
	r := &s.rest
	r.sweeping.Lock()
	defer r.sweeping.Unlock()
	s.mu.Lock()
	records := r.awake
	r.awake = nil
	s.mu.Unlock()

	awake := records[:0]
	for _, record := range records {
		switch {
		case r.stopped.Load():
			return
		case record.Retired():
		case !record.Unused():
			awake = append(awake, record)
		case record.Rest():
			r.rested(record)
		default:
			awake = append(awake, record)
		}
	}
	clear(records[len(awake):])

	s.mu.Lock()
	r.awake = append(awake, r.awake...)
	left := len(r.awake)
	r.timer = nil
	if left > 0 && !s.closed {
		r.timer = time.AfterFunc(r.interval, s.sweep)
	}
	s.mu.Unlock()
	if r.bytes >= returnSize && r.records >= awakeShare*left {
		r.bytes, r.records = 0, 0
		returnMemory()
	}
}

// returnMemory returns free memory to the operating system. It collects garbage twice, because what
// is in a sync.Pool, such as the buffer of a long list, outlives one collection.
func returnMemory() {
	runtime.GC()
	debug.FreeOSMemory()
}

// rested compresses a record that is at rest, as soon as there is a dictionary.
func (r *rest) rested(record *storage.Record) {
	r.bytes += record.Size()
	r.records++
	if record.Compressed() {
		return
	}
	name := collectionOf(record.Key)
	c := r.collections[name]
	if c == nil {
		c = &collection{}
		if r.collections == nil {
			r.collections = map[string]*collection{}
		}
		r.collections[name] = c
	}
	c.pending = append(c.pending, record)
	c.bytes += record.Size()
	switch {
	case c.encoder != nil:
		c.compress()
		if c.bytes >= retrainSize {
			c.encoder, c.bytes = nil, 0
		}
	case c.bytes >= trainSize:
		if c.prune(); c.bytes >= trainSize {
			c.train()
			c.compress()
		}
	}
}

// prune removes records that are retired or pending twice.
func (c *collection) prune() {
	pending := c.pending[:0]
	seen := make(map[*storage.Record]struct{}, len(c.pending))
	c.bytes = 0
	for _, record := range c.pending {
		if _, twice := seen[record]; twice || record.Retired() {
			continue
		}
		seen[record] = struct{}{}
		pending = append(pending, record)
		c.bytes += record.Size()
	}
	clear(c.pending[len(pending):])
	c.pending = pending
}

// train makes a dictionary of the pending records.
func (c *collection) train() {
	step := max(1, len(c.pending)/maxSamples)
	var samples [][]byte
	for i := 0; i < len(c.pending); i += step {
		samples = append(samples, c.pending[i].Value())
	}
	c.encoder, c.bytes = dictionary.Train(samples), 0
}

// compress compresses the pending records.
func (c *collection) compress() {
	for _, record := range c.pending {
		record.Compress(c.encoder)
		c.bytes += record.Size()
	}
	clear(c.pending)
	c.pending = c.pending[:0]
}

// collectionOf returns the first two elements of a key, such as /core/pods.
func collectionOf(key string) string {
	end := 1
	for range 2 {
		i := strings.IndexByte(key[min(end, len(key)):], '/')
		if i < 0 {
			break
		}
		end += i + 1
	}
	return key[:end-1]
}
