package memory

import (
	"iter"
	"sync/atomic"

	"flyball.dev/storage"
	"flyball.dev/storage/memory/internal/dictionary"
)

// entry is a record with its content. An idle entry has no cached values, and its value may be
// compressed. Readers of an idle entry see no difference but for the time that Value takes.
type entry struct {
	storage.Record

	value  atomic.Pointer[value]
	cached atomic.Pointer[cachedValue]
	// used is set if the entry was used since isUnused was called.
	used atomic.Bool
	// retired is set when the record was replaced or deleted.
	retired atomic.Bool
}

// value is the value of a record, compressed if there is a dictionary.
type value struct {
	data       []byte
	dictionary *dictionary.Dictionary
}

// newEntry returns an entry of a key and a value, which belongs to the entry from now on.
func newEntry(key string, data []byte) *entry {
	e := &entry{Record: storage.Record{Key: key}}
	e.Content = e
	e.value.Store(&value{data: data})
	return e
}

// entryOf returns the entry of a record of the store.
func entryOf(r *storage.Record) *entry { return r.Content.(*entry) }

// copy returns an entry of the same record and value, without cached values.
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

// maxCached bounds the cached values of one record. A record has several owners of cached values
// when a kind is served in several versions, each with its own decoded object. A value too many
// evicts the oldest one.
const maxCached = 4

// cachedValue is a value that one owner has cached: a node of an immutable linked list, the latest
// value first.
type cachedValue struct {
	owner, value any
	next         *cachedValue
}

// Lists of an entry that caches no values: dropped after dropCached, idle while the entry is idle.
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

// dropCached drops the cached values, and lets none be cached from now on.
func (e *entry) dropCached() { e.cached.Store(dropped) }

// use notes that the entry is used.
func (e *entry) use() {
	if !e.used.Load() { // so that readers on several processors do not contend
		e.used.Store(true)
	}
}

// isUnused reports whether the entry was not used since the last call.
func (e *entry) isUnused() bool { return !e.used.Swap(false) }

// wake notes that the entry is used, and reports whether it was idle. Of several calls at once, one
// reports true.
func (e *entry) wake() bool {
	e.use()
	return e.cached.Load() == idle && e.cached.CompareAndSwap(idle, nil)
}

// retire notes that the record was replaced or deleted. The entry is never idle again, because
// watchers may still need it.
func (e *entry) retire() {
	e.retired.Store(true)
	e.cached.CompareAndSwap(idle, nil)
}

// setIdle drops the cached values, and lets none be cached until wake. It returns false, and changes
// nothing, if the record is retired, or another goroutine caches or drops a value at the same time.
func (e *entry) setIdle() bool {
	c := e.cached.Load()
	if c == dropped || e.retired.Load() || !e.cached.CompareAndSwap(c, idle) {
		return false
	}
	if e.retired.Load() { // meanwhile
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
