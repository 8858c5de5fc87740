package memory

import (
	"iter"
	"runtime"
	"sync/atomic"

	"flyball.dev/storage"
	"flyball.dev/storage/memory/internal/dictionary"
)

// entry is a record with its content. An idle entry has no cached values, and its value may be compressed, as the large value of a retired
// entry may be. To readers, these entries differ only in the time that Value takes.
type entry struct {
	storage.Record

	value  atomic.Pointer[value]
	cached atomic.Pointer[cachedValue]
	// used is set when the entry is used; isUnused clears it.
	used atomic.Bool
	// retired is set when the record was replaced or deleted.
	retired atomic.Bool
	note    atomic.Uint32
	// size is the length of the value. It is beside the note, since a list of many records reads both before it reads any value,
	// and each read from another place is a wait for the memory.
	size uint32
}

// value is the value of a record. It is compressed if dictionary is not nil.
type value struct {
	data       []byte
	dictionary *dictionary.Dictionary
}

// newEntry returns an entry for key. The entry takes ownership of data.
func newEntry(key string, data []byte) *entry {
	e := &entry{Record: storage.Record{Key: key}, size: uint32(len(data))}
	e.Content = e
	e.value.Store(&value{data: data})
	return e
}

// NewRecord returns a record with a value, which belongs to the record from then on. No store has it, so the value is never
// compressed.
func NewRecord(r storage.Record, value []byte) *storage.Record {
	e := newEntry(r.Key, value)
	r.Content = e
	e.Record = r
	return &e.Record
}

// entryOf returns the entry of a record of the store.
func entryOf(r *storage.Record) *entry { return r.Content.(*entry) }

// copy returns an entry with the same record and value, and without cached values.
func (e *entry) copy() *entry {
	c := &entry{Record: e.Record, size: e.size}
	c.Content = c
	c.value.Store(e.value.Load())
	c.note.Store(e.note.Load())
	return c
}

// Value implements [storage.Content].
func (e *entry) Value() []byte { return e.ValueIn(nil) }

// ValueIn implements [storage.Content].
func (e *entry) ValueIn(buf []byte) []byte {
	v := e.value.Load()
	if v.dictionary != nil {
		return v.dictionary.Decode(v.data, buf)
	}
	return v.data
}

// Preload implements [storage.Content]. Each value is three reads from memory away, and each of these depends on the one before. The
// processor makes the reads of a loop at the same time, since the ones of other values do not depend on each other.
func (*entry) Preload(records []*storage.Record) {
	const most = 16
	var values [most]*value
	var sum byte
	for len(records) > 0 {
		n := min(most, len(records))
		for i, r := range records[:n] {
			values[i] = entryOf(r).value.Load()
		}
		for _, v := range values[:n] {
			if len(v.data) > 0 {
				sum += v.data[0] + v.data[len(v.data)/2] + v.data[len(v.data)-1]
			}
		}
		records = records[n:]
	}
	runtime.KeepAlive(sum) // and with it the reads
}

// Size implements [storage.Content].
func (e *entry) Size() int { return int(e.size) }

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

// Note implements [storage.Content].
func (e *entry) Note() uint32 { return e.note.Load() }

// SetNote implements [storage.Content].
func (e *entry) SetNote(note uint32) { e.note.Store(note) }

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

// isForgotten reports whether the entry is retired and too small to be compressed.
func (e *entry) isForgotten() bool { return e.retired.Load() && e.Size() < largeSize }

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
