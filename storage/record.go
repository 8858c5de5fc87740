package storage

import (
	"iter"
	"sync/atomic"
	"time"

	"flyball.dev/storage/internal/dictionary"
)

// Record is a key with its value at one revision. It is shared and must not be changed.
//
// A record is awake or at rest. It is awake at first, and a store may put it to rest when it has
// not been used for a while: it has no cached values then, and its value may be compressed. The
// store wakes it when it hands it out again. That is invisible but for the time that Value takes,
// and for values that are not cached.
type Record struct {
	Key string
	// Revision is the revision of the write that stored this value (etcd's mod revision).
	Revision uint64
	// Created is the revision of the write that created the key (etcd's create revision).
	Created uint64
	// Expires is when the store deletes the record; zero means never.
	Expires time.Time

	value  atomic.Pointer[value]
	cached atomic.Pointer[cachedValue]
	// used is set if the record was used since the store has looked at it.
	used atomic.Bool
	// retired is set when there is a later record of the key, or none.
	retired atomic.Bool
}

// value is the value of a record, compressed if there is a dictionary.
type value struct {
	data       []byte
	dictionary *dictionary.Dictionary
}

// NewRecord returns a record with a key and a value, which belongs to the record from now on.
func NewRecord(key string, data []byte) *Record {
	r := &Record{Key: key}
	r.value.Store(&value{data: data})
	return r
}

// Copy returns a record with the same fields and value, and without cached values.
func (r *Record) Copy() *Record {
	c := &Record{Key: r.Key, Revision: r.Revision, Created: r.Created, Expires: r.Expires}
	c.value.Store(r.value.Load())
	return c
}

// Value returns the value, which must not be changed.
func (r *Record) Value() []byte {
	v := r.value.Load()
	switch {
	case v == nil:
		return nil
	case v.dictionary != nil:
		return v.dictionary.Decode(v.data)
	}
	return v.data
}

// Size returns the length of the value.
func (r *Record) Size() int {
	v := r.value.Load()
	switch {
	case v == nil:
		return 0
	case v.dictionary != nil:
		return dictionary.Size(v.data)
	}
	return len(v.data)
}

// Compressed reports whether the value is compressed.
func (r *Record) Compressed() bool {
	v := r.value.Load()
	return v != nil && v.dictionary != nil
}

// Compress compresses the value with an encoder, if that is worth it. Only a store may call it,
// from one goroutine at a time.
func (r *Record) Compress(e *dictionary.Encoder) {
	v := r.value.Load()
	if v == nil || v.dictionary != nil {
		return
	}
	if packed := e.Encode(v.data); packed != nil {
		r.value.Store(&value{packed, e.Dictionary()})
	}
}

// maxCached bounds the cached values of one record. A record has several owners of cached values
// when a kind is served in several versions, each with its own decoded object; when a value too
// many is cached, the oldest one is evicted.
const maxCached = 4

// cachedValue is what one owner has derived from a record: a node of an immutable linked list, with
// the latest value first.
type cachedValue struct {
	owner, value any
	next         *cachedValue
}

// Lists of a record that caches no values: dropped is that of one whose values were dropped for
// good, and resting of one at rest.
var dropped, resting = &cachedValue{}, &cachedValue{}

// Cached returns the value that owner has cached with this record, or nil. A cached value may be
// evicted at any time. Owners are not nil, and are compared with ==.
func (r *Record) Cached(owner any) any {
	for c := r.cached.Load(); c != nil; c = c.next {
		if c.owner == owner {
			r.use()
			return c.value
		}
	}
	return nil
}

// SetCached caches value for owner and returns it. If owner has a cached value already, that stays
// and is returned, so that all callers share one. After DropCached, and at rest, nothing is cached.
func (r *Record) SetCached(owner, value any) any {
	for {
		first := r.cached.Load()
		if first == dropped || first == resting {
			return value
		}
		if present := r.Cached(owner); present != nil {
			return present
		}
		if r.cached.CompareAndSwap(first, &cachedValue{owner, value, first.head(maxCached - 1)}) {
			return value
		}
	}
}

// AllCached returns an iterator over the cached values and their owners.
func (r *Record) AllCached() iter.Seq2[any, any] {
	return func(yield func(owner, value any) bool) {
		c := r.cached.Load()
		if c == dropped || c == resting {
			return
		}
		for ; c != nil && yield(c.owner, c.value); c = c.next {
		}
	}
}

// DropCached drops all cached values; the record caches none from now on. Stores call it for
// replaced records, which are rarely read and whose cached values take several times the memory of
// the encoded ones.
func (r *Record) DropCached() {
	r.cached.Store(dropped)
}

// use notes that the record is used.
func (r *Record) use() {
	if !r.used.Load() { // so that readers on several processors do not contend
		r.used.Store(true)
	}
}

// Wake notes that the record is used, and ends its rest. It reports whether it was at rest: of
// several calls at once, one does.
func (r *Record) Wake() bool {
	r.use()
	return r.cached.Load() == resting && r.cached.CompareAndSwap(resting, nil)
}

// Retire notes that the record was replaced or deleted, and ends its rest for good: watchers may
// still need it.
func (r *Record) Retire() {
	r.retired.Store(true)
	r.cached.CompareAndSwap(resting, nil)
}

// Retired reports whether the record was replaced or deleted.
func (r *Record) Retired() bool { return r.retired.Load() }

// Unused reports whether the record was not used since the last call.
func (r *Record) Unused() bool { return !r.used.Swap(false) }

// Rest drops the cached values, and lets none be cached until Wake. It fails, and changes nothing,
// if another goroutine caches or drops a value at the same time, and if the record is retired.
func (r *Record) Rest() bool {
	c := r.cached.Load()
	if c == dropped || r.Retired() || !r.cached.CompareAndSwap(c, resting) {
		return false
	}
	if r.Retired() { // meanwhile
		r.cached.CompareAndSwap(resting, nil)
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
