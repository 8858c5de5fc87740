package storage

import (
	"iter"
	"sync/atomic"
	"time"
)

// Record is a key with its value at one revision. It is shared and must not be changed.
type Record struct {
	Key   string
	Value []byte
	// Revision is the revision of the write that stored this value (etcd's mod revision).
	Revision uint64
	// Created is the revision of the write that created the key (etcd's create revision).
	Created uint64
	// Expires is when the store deletes the record; zero means never.
	Expires time.Time

	cached atomic.Pointer[cachedValue]
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

// dropped is the list of a record whose values were dropped, and which caches none any more.
var dropped = &cachedValue{}

// Cached returns the value that owner has cached with this record, or nil. A cached value may be
// evicted at any time. Owners are not nil, and are compared with ==.
func (r *Record) Cached(owner any) any {
	for c := r.cached.Load(); c != nil; c = c.next {
		if c.owner == owner {
			return c.value
		}
	}
	return nil
}

// SetCached caches value for owner and returns it. If owner has a cached value already, that stays
// and is returned, so that all callers share one. After DropCached, nothing is cached.
func (r *Record) SetCached(owner, value any) any {
	for {
		first := r.cached.Load()
		if first == dropped {
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
		if c == dropped {
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
