package storage

import (
	"iter"
	"time"
)

// Record is a key with its value at one revision. Readers share it and must not change it.
type Record struct {
	Key string
	// Revision is the revision of the write that stored this value (etcd's mod revision).
	Revision uint64
	// Created is the revision of the write that created the key (etcd's create revision).
	Created uint64
	// Version is the number of writes to the key since its creation, with the creation as the first.
	Version uint64
	// Expires is when the store deletes the record; zero means never.
	Expires time.Time
	// Lease is the lease that the record is attached to; zero means none. See [Lessor].
	Lease int64

	// Content is set by the store and never changes.
	Content
}

// Content is the value of a record, together with the values that readers have derived from it. The store decides how
// it keeps both.
type Content interface {
	// Value returns the value, which must not be changed.
	Value() []byte
	// ValueIn returns the value too, and may use the space of buf for it, so that a reader of many values needs no memory
	// for each. The result is valid until the caller reuses buf, and must not be changed either.
	ValueIn(buf []byte) []byte
	// Size returns the length of the value. It may be cheaper than len(Value()).
	Size() int

	// Preload begins to read the values of records of the same store, so that a reader of many values need not wait for the memory
	// of each in turn.
	Preload(records []*Record)

	// Cached returns the value that owner has cached with the record, or nil. The store may evict a cached value at any
	// time. An owner is not nil, and the store compares owners with ==.
	Cached(owner any) any
	// SetCached caches a value for owner and returns it. If owner already has a cached value, SetCached returns the
	// existing one, so that all callers share one value. The store may choose not to cache the value.
	SetCached(owner, value any) any
	// AllCached returns an iterator over the cached values and their owners.
	AllCached() iter.Seq2[any, any]

	// Note returns a number that a reader has found out about the value, and zero before SetNote. Unlike cached values,
	// the store keeps it as long as the record.
	Note() uint32
	// SetNote sets the note. Every reader that sets it must find the same number.
	SetNote(note uint32)
}
