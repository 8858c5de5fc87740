package storage

import (
	"iter"
	"sync/atomic"
	"time"
)

// Record is what is stored under a key. It is shared and must not be changed.
type Record struct {
	Key   string
	Value []byte
	// Revision is that of the write that made the record what it is.
	Revision uint64
	// Created is the revision of the write that made the record come to be.
	Created uint64
	// Expires is when the store deletes the record; zero is never.
	Expires time.Time

	memos atomic.Pointer[memo]
}

// maxMemos bounds the memos of one record. A record has several owners of memos when a kind is served
// in several versions, each with its own decoded form; owners that are gone fall out at the end.
const maxMemos = 4

// memo is what one owner has derived from a record, in an immutable list.
type memo struct {
	owner, value any
	next         *memo
}

// forgotten is the list of memos of a record that keeps none.
var forgotten = &memo{}

// Memo returns what owner has derived from this record, or nil. Memos are a cache: they may be gone at
// any time. Owners are not nil, and are compared with ==.
func (r *Record) Memo(owner any) any {
	for m := r.memos.Load(); m != nil; m = m.next {
		if m.owner == owner {
			return m.value
		}
	}
	return nil
}

// Memoize keeps value as owner's memo and returns it; if somebody was faster, it returns theirs, so that
// all share one. After Forget, it keeps nothing.
func (r *Record) Memoize(owner, value any) any {
	for {
		first := r.memos.Load()
		if first == forgotten {
			return value
		}
		if kept := r.Memo(owner); kept != nil {
			return kept
		}
		if r.memos.CompareAndSwap(first, &memo{owner, value, first.head(maxMemos - 1)}) {
			return value
		}
	}
}

// Memos yields all memos with their owners.
func (r *Record) Memos() iter.Seq2[any, any] {
	return func(yield func(owner, value any) bool) {
		m := r.memos.Load()
		if m == forgotten {
			return
		}
		for ; m != nil && yield(m.owner, m.value); m = m.next {
		}
	}
}

// Forget drops all memos; the record keeps none from now on. Stores call it for replaced records, which are
// rarely read and whose memos take several times the memory of their values.
func (r *Record) Forget() {
	r.memos.Store(forgotten)
}

// head returns the first n memos of the list.
func (m *memo) head(n int) *memo {
	if m == nil || n == 0 {
		return nil
	}
	next := m.next.head(n - 1)
	if next == m.next {
		return m
	}
	return &memo{m.owner, m.value, next}
}
