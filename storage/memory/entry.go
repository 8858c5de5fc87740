package memory

import (
	"iter"
	"sync/atomic"

	"flyball.dev/storage"
	"flyball.dev/storage/memory/internal/dictionary"
)

// entry is a record with its content. An idle entry has no cached values, and its value may be compressed. To readers,
// an idle entry differs only in the time that Value takes.
type entry struct {
	storage.Record

	value  atomic.Pointer[value]
	cached atomic.Pointer[cachedValue]
	// used is set when the entry is used; isUnused clears it.
	used atomic.Bool
	// retired is set when the record was replaced or deleted.
	retired atomic.Bool
}

// value is the value of a record. It is compressed if dictionary is not nil.
type value struct {
	data       []byte
	dictionary *dictionary.Dictionary
}

// newEntry returns an entry for key. The entry takes ownership of data.
func newEntry(key string, data []byte) *entry {
	e := &entry{Record: storage.Record{Key: key}}
	e.Content = e
	e.value.Store(&value{data: data})
	return e
}

// entryOf returns the entry of a record of the store.
func entryOf(r *storage.Record) *entry { return r.Content.(*entry) }

// copy returns an entry with the same record and value, and without cached values.
func (e *entry) copy() *entry {
	c := &entry{Record: e.Record}
	c.Content = c
	c.value.Store(e.value.Load())
	return c
}

// Value implements [storage.Content].
func (e *entry) Value() []byte {
	v := e.value.Load()
	if v.dictionary != nil {
		return v.dictionary.Decode(v.data)
	}
	return v.data
}

// Size implements [storage.Content].
func (e *entry) Size() int {
	v := e.value.Load()
	if v.dictionary != nil {
		return dictionary.Size(v.data)
	}
	return len(v.data)
}

// isCompressed reports whether the value is compressed.
func (e *entry) isCompressed() bool { return e.value.Load().dictionary != nil }

// compress compresses the value if that makes it smaller. One goroutine at a time may call it.
func (e *entry) compress(encoder *dictionary.Encoder) {
	v := e.value.Load()
	if v.dictionary != nil {
		return
	}
	if packed := encoder.Encode(v.data); packed != nil {
		e.value.Store(&value{packed, encoder.Dictionary()})
	}
}

// maxCached bounds the cached values of one record. A record has several owners of cached values when a kind is served
// in several versions, each with its own decoded object. Caching one more evicts the oldest value.
const maxCached = 4

// cachedValue is a node of an immutable linked list of cached values, one for each owner, with the latest value first.
type cachedValue struct {
	owner, value any
	next         *cachedValue
}

// Sentinel lists of an entry that caches no values: dropped after dropCached, idle while the entry is idle.
var dropped, idle = &cachedValue{}, &cachedValue{}

// Cached implements [storage.Content].
func (e *entry) Cached(owner any) any {
	for c := e.cached.Load(); c != nil; c = c.next {
		if c.owner == owner {
			e.use()
			return c.value
		}
	}
	return nil
}

// SetCached implements [storage.Content].
func (e *entry) SetCached(owner, value any) any {
	for {
		first := e.cached.Load()
		if first == dropped || first == idle {
			return value
		}
		if present := e.Cached(owner); present != nil {
			return present
		}
		if e.cached.CompareAndSwap(first, &cachedValue{owner, value, first.head(maxCached - 1)}) {
			return value
		}
	}
}

// AllCached implements [storage.Content].
func (e *entry) AllCached() iter.Seq2[any, any] {
	return func(yield func(owner, value any) bool) {
		c := e.cached.Load()
		if c == dropped || c == idle {
			return
		}
		for ; c != nil && yield(c.owner, c.value); c = c.next {
		}
	}
}

// dropCached drops the cached values, and prevents caching from now on.
func (e *entry) dropCached() { e.cached.Store(dropped) }

// use records a use of the entry.
func (e *entry) use() {
	if !e.used.Load() { // so that readers on several processors do not contend
		e.used.Store(true)
	}
}

// isUnused reports whether nobody has used the entry since the last call.
func (e *entry) isUnused() bool { return !e.used.Swap(false) }

// wake records a use of the entry, and reports whether the entry was idle. Of several concurrent calls, only one
// reports true.
func (e *entry) wake() bool {
	e.use()
	return e.cached.Load() == idle && e.cached.CompareAndSwap(idle, nil)
}

// retire records that the record was replaced or deleted. A retired entry never becomes idle, because watchers may
// still need it.
func (e *entry) retire() {
	e.retired.Store(true)
	e.cached.CompareAndSwap(idle, nil)
}

// setIdle drops the cached values, and prevents caching until wake. It returns false and changes nothing if the record
// is retired, or if another goroutine concurrently caches or drops a value.
func (e *entry) setIdle() bool {
	c := e.cached.Load()
	if c == dropped || e.retired.Load() || !e.cached.CompareAndSwap(c, idle) {
		return false
	}
	if e.retired.Load() { // retired in the meantime
		e.cached.CompareAndSwap(idle, nil)
		return false
	}
	return true
}

// head returns a list of the first n values.
func (c *cachedValue) head(n int) *cachedValue {
	if c == nil || n == 0 {
		return nil
	}
	next := c.next.head(n - 1)
	if next == c.next {
		return c
	}
	return &cachedValue{c.owner, c.value, next}
}
