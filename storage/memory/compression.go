package memory

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"flyball.dev/storage"
	"flyball.dev/storage/memory/internal/dictionary"
)

const (
	// A collection gets its first dictionary when trainSize bytes of it are idle, and a new one when minRetrain more bytes are
	// compressed, because the values may have changed: the first ones may be pods that do not run yet. The next ones follow after
	// twice as many bytes each, and at last after every maxRetrain bytes. maxSamples values train a dictionary.
	trainSize, minRetrain, maxRetrain = 256 << 10, 1 << 20, 64 << 20
	maxSamples                        = 256
	// sweepSize is the size of the values that may become active between two sweeps. Entries that nobody uses between
	// two sweeps become idle, so the active values of a burst of writes take twice that size.
	sweepSize = 1 << 20
	// largeSize is the smallest size of a replaced value that is worth the time to compress it: few of them fill the history.
	largeSize = 16 << 10
	// minRetired is the smallest number of retired entries in active that prune removes.
	minRetired = 1024
)

// compression makes unused entries idle and compresses their values.
type compression struct {
	interval time.Duration // zero if no entry becomes idle

	// active has the entries that are not idle, and some retired ones. timer runs while active is not empty. The
	// store's lock guards both.
	active []*entry
	timer  *time.Timer
	// fresh is the size of the values that became active since the last sweep. The store's lock guards it.
	fresh int

	// stopped is set when the store is closed. A sweep holds sweeping, which guards the fields below.
	stopped     atomic.Bool
	sweeping    sync.Mutex
	collections map[string]*collection
}

// collection compresses the records with a common two-element key prefix, because their values probably resemble each
// other.
type collection struct {
	encoder *dictionary.Encoder // nil before there is a dictionary
	// pending lists the idle entries that wait for the first dictionary.
	pending []*entry
	// bytes is the size of the pending values before there is an encoder, and afterwards the size of the values that
	// the encoder has compressed.
	bytes int
	// retrain is the value of bytes at which there is a new encoder, made from the values of the latest entries: the ones of
	// the last trainSize bytes before.
	retrain int
	latest  []*entry
}

// add adds active entries. The caller holds the store's lock.
func (c *compression) add(s *Store, entries ...*entry) {
	if c.interval == 0 {
		return
	}
	c.active = append(c.active, entries...)
	for _, e := range entries {
		e.wake()
		c.fresh += e.Size()
	}
	switch {
	case len(c.active) == 0:
	case c.timer == nil:
		c.timer = time.AfterFunc(c.wait(), s.sweep)
	case c.wait() == soon && c.timer.Stop(): // otherwise a sweep is running
		c.timer.Reset(soon)
	}
}

// wait returns the time until the next sweep. The caller holds the store's lock.
func (c *compression) wait() time.Duration {
	if c.fresh > sweepSize {
		return soon
	}
	return c.interval
}

// prune removes the retired entries from active if most entries are retired, except the ones that a sweep compresses; current is the
// number of current records. The caller holds the lock.
func (c *compression) prune(current int) {
	if len(c.active) >= 2*current+minRetired {
		c.active = slices.DeleteFunc(c.active, func(e *entry) bool { return e.isForgotten() })
	}
}

// wake marks the entry of a record, or of nil, as used before a reader gets it. The caller holds the lock.
func (s *Store) wake(r *storage.Record) {
	if r == nil {
		return
	}
	if e := entryOf(r); e.wake() {
		s.compression.add(s, e)
	}
}

// wakeAll marks the entries of records as used before a reader gets them.
func (s *Store) wakeAll(records []*storage.Record) {
	var woken []*entry
	for _, r := range records {
		if e := entryOf(r); e.wake() {
			woken = append(woken, e)
		}
	}
	if len(woken) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.compression.add(s, woken...)
	}
}

// stop stops the timer and makes a running sweep end early. The caller holds the lock.
func (c *compression) stop() {
	c.stopped.Store(true)
	if c.timer != nil {
		c.timer.Stop()
	}
	c.active = nil
}

// finish waits for a sweep to end.
func (c *compression) finish() {
	c.sweeping.Lock()
	defer c.sweeping.Unlock()
	c.collections = nil
}

// sweep makes the entries idle that nobody has used since the last sweep. The timer calls it.
func (s *Store) sweep() {
	c := &s.compression
	c.sweeping.Lock()
	defer c.sweeping.Unlock()
	s.mu.Lock()
	entries := c.active
	c.active, c.fresh = nil, 0
	s.mu.Unlock()

	active := entries[:0]
	for _, e := range entries {
		switch {
		case c.stopped.Load():
			return
		case e.isForgotten():
		case e.retired.Load():
			c.compress(e)
		case !e.isUnused():
			active = append(active, e)
		case e.setIdle():
			c.compress(e)
		default:
			active = append(active, e)
		}
	}
	clear(entries[len(active):])

	s.mu.Lock()
	defer s.mu.Unlock()
	c.active = append(active, c.active...)
	c.timer = nil
	if len(c.active) > 0 && !s.closed {
		c.timer = time.AfterFunc(c.wait(), s.sweep)
	}
}

// compress compresses an idle entry, or queues it until there is a dictionary.
func (c *compression) compress(e *entry) {
	if e.isCompressed() {
		return
	}
	name := collectionOf(e.Key)
	to := c.collections[name]
	if to == nil {
		to = &collection{}
		if c.collections == nil {
			c.collections = map[string]*collection{}
		}
		c.collections[name] = to
	}
	to.add(e)
}

// add compresses an entry, or queues it until there is a dictionary.
func (c *collection) add(e *entry) {
	if c.encoder != nil {
		c.compress(e)
		return
	}
	c.pending = append(c.pending, e)
	if c.bytes += e.Size(); c.bytes < trainSize {
		return
	}
	if c.prune(); c.bytes < trainSize {
		return
	}
	pending := c.pending
	c.pending = nil
	c.train(pending)
	for _, e := range pending {
		c.compress(e)
	}
}

// prune removes duplicates, and retired entries that need not be compressed, from pending.
func (c *collection) prune() {
	pending := c.pending[:0]
	seen := make(map[*entry]struct{}, len(c.pending))
	c.bytes = 0
	for _, e := range c.pending {
		if _, twice := seen[e]; twice || e.isForgotten() {
			continue
		}
		seen[e] = struct{}{}
		pending = append(pending, e)
		c.bytes += e.Size()
	}
	clear(c.pending[len(pending):])
	c.pending = pending
}

// train makes an encoder with a dictionary from the values of entries.
func (c *collection) train(entries []*entry) {
	step := max(1, len(entries)/maxSamples)
	var samples [][]byte
	for i := 0; i < len(entries); i += step {
		samples = append(samples, entries[i].Value())
	}
	c.encoder, c.bytes, c.latest = dictionary.Train(samples), 0, nil
	c.retrain = min(max(minRetrain, 2*c.retrain), maxRetrain)
}

// compress compresses an entry.
func (c *collection) compress(e *entry) {
	e.compress(c.encoder)
	if c.bytes += e.Size(); c.bytes > c.retrain-trainSize {
		c.latest = append(c.latest, e)
	}
	if c.bytes >= c.retrain {
		c.train(c.latest)
	}
}

// collectionOf returns what the keys of one resource have in common, such as /registry/pods and
// /registry/example.com/widgets: two elements, and a third if the second is a group.
func collectionOf(key string) string {
	collection := elements(key, 2)
	if strings.Contains(collection, ".") {
		return elements(key, 3)
	}
	return collection
}

// elements returns the first n elements of a key.
func elements(key string, n int) string {
	end := 0
	for range n {
		i := strings.IndexByte(key[min(end+1, len(key)):], '/')
		if i < 0 {
			return key
		}
		end += i + 1
	}
	return key[:end]
}
