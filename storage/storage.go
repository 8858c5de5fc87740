// Package storage is the contract between the API server and what keeps its records: a key-value
// store with one revision for everything.
//
// Every successful write gets the next revision, which is higher than all before it, as in etcd. On
// that rest compare-and-swap (a record's revision is its version), consistent reads (a range at a
// revision) and watches (the writes after a revision, in order).
//
// Keys are paths such as /core/pods/default/web. A key is not empty and does not end in a slash.
// Where a method takes a path, one that is empty or ends in a slash is a prefix, which covers all
// keys that begin with it; any other covers that one key.
//
// # Concurrency and ownership
//
// All methods of a [Store] may be called from any number of goroutines. Records and events are
// shared by all readers and are immutable, except for the cached values of a record. A write that
// has returned is visible to every read that begins afterwards, and its event is delivered to every
// watcher whose path covers it. Neither readers nor slow watchers block a writer.
package storage

import (
	"context"
	"errors"
	"math"
	"strings"
	"time"
)

// The errors of a store, to be tested with errors.Is. Any other error is a failure of the medium
// below, or that of the context, and leaves open whether a write took place.
var (
	// ErrNotFound means that there is no record under the key.
	ErrNotFound = errors.New("storage: key not found")
	// ErrConflict means that the record is not at the revision that the write requires.
	ErrConflict = errors.New("storage: revision conflict")
	// ErrCondition means that another record is not at the revision that the write requires of it.
	ErrCondition = errors.New("storage: the condition on another record does not hold")
	// ErrCompacted means that the revision is older than the history that the store keeps.
	ErrCompacted = errors.New("storage: revision is compacted")
	// ErrFuture means that the store has not reached the revision yet.
	ErrFuture = errors.New("storage: revision is in the future")
	// ErrKey means that a key is empty or ends in a slash.
	ErrKey = errors.New("storage: not a key")
	// ErrNoCheckpoint means that there is no state to return to.
	ErrNoCheckpoint = errors.New("storage: there is no checkpoint")
	// ErrFenced means that the store was reset since the request began.
	ErrFenced = errors.New("storage: the store was reset meanwhile")
	// ErrClosed means that the store is closed.
	ErrClosed = errors.New("storage: closed")
)

// First is the revision of an empty store.
const First uint64 = 1

// Values of [Write.If], [Condition.If] and of Delete's revision that are not the revision of a record.
const (
	// Absent requires that there is no record under the key.
	Absent uint64 = 0
	// Any means no condition.
	Any uint64 = math.MaxUint64
)

// Store is a store of records.
type Store interface {
	// Revisions returns the revision of the latest write, and the oldest one that the store can
	// still be read at and watched from. That rises by Compact, and by itself, as the history is
	// bounded in size and time.
	//
	// Possible errors: ErrClosed.
	Revisions(ctx context.Context) (latest, oldest uint64, err error)

	// Get returns the record under key.
	//
	// Possible errors: ErrNotFound, ErrClosed.
	Get(ctx context.Context, key string) (*Record, error)

	// Range returns records in the order of their keys, all as they were at one revision. The time it
	// takes grows with the records that it returns and not with those before and after them, so that
	// reading all in pages of the same revision takes about as long as reading all at once.
	//
	// Possible errors: ErrCompacted and ErrFuture for q.Revision, ErrClosed.
	Range(ctx context.Context, q Query) (Page, error)

	// Put creates or replaces a record and returns it. With ErrConflict it returns the present
	// record instead, or nil if there is none, so that the caller can try again. It returns ErrCondition
	// only if the record itself is at the required revision. If the context has ended or its deadline
	// has passed, nothing is written.
	//
	// Possible errors: ErrConflict, ErrCondition, ErrKey, ErrClosed, that of the context.
	Put(ctx context.Context, w Write) (*Record, error)

	// Delete removes the record under key if it is at the given revision, or at any revision if
	// that is Any. It returns the record of the event: the last value with the revision of the
	// deletion. With ErrConflict it returns the present record. If the context has ended or its deadline
	// has passed, nothing is deleted.
	//
	// Possible errors: ErrNotFound, ErrConflict, ErrClosed, that of the context.
	Delete(ctx context.Context, key string, revision uint64) (*Record, error)

	// Watch returns a watcher of all writes to path after a revision. Zero means the latest one. If
	// the revision is in the future, writes up to it are skipped. The context is that of the call,
	// and does not end the watcher.
	//
	// Possible errors: ErrCompacted, ErrClosed.
	Watch(ctx context.Context, path string, after uint64) (Watcher, error)

	// Compact drops the history up to a revision, which can then no longer be read at or watched
	// from, except for that revision itself. Compacting at a revision that is compacted already
	// does nothing.
	//
	// Possible errors: ErrFuture, ErrClosed.
	Compact(ctx context.Context, revision uint64) error

	// Close closes all watchers and releases what the store holds. No goroutine or timer of the
	// store runs when it returns. Closing again does nothing.
	Close() error
}

// Query selects the records of a range.
type Query struct {
	Path string
	// Start is the first key that may be returned; empty for the first of the path.
	Start string
	// Limit is the largest number of records to return; zero means no limit.
	Limit int
	// Revision is the one to read at; zero is the latest.
	Revision uint64
}

// Page is the result of a query.
type Page struct {
	Records []*Record
	// Revision is the one that was read at.
	Revision uint64
	// Remaining is the number of records of the path that follow these, at that revision.
	Remaining int
}

// Write is a record to be written.
type Write struct {
	Key string
	// Value belongs to the store from now on and must not be changed.
	Value []byte
	// If is the revision at which the record must be: Absent to create, Any for no condition.
	If uint64
	// Require are conditions on other records. All hold at the revision of the write: nothing is
	// written in between.
	Require []Condition
	// Expires is when the store deletes the record; zero means never.
	Expires time.Time
	// BeforeCommit, if not nil, is called with the new record, which has its revision, before it is
	// visible to others. The writer can set a cached value then, so that what it wrote is never
	// decoded.
	// BeforeCommit must neither block nor use the store. It is not called if the write fails.
	BeforeCommit func(*Record)
}

// Condition is a requirement of a write on another record, like a compare of a transaction in etcd.
type Condition struct {
	Key string
	// If is the revision at which the record must be: Absent for none, Any for no condition.
	If uint64
}

// Watcher returns the writes to one path, each once, in the order of their revisions. It reads from
// the history that all watchers share, when it is called, and has no goroutine of its own. It must
// be used by one goroutine at a time, and closed.
type Watcher interface {
	// Next returns the next events, without waiting for any; the slice is valid until the next
	// call. With these, all events of the path up to revision have been returned, even if there
	// were none: the caller can report that as progress.
	//
	// Possible errors: ErrCompacted if the watcher was so slow that its next event is no longer in
	// the history, ErrClosed. No events follow an error.
	Next() (events []*Event, revision uint64, err error)

	// Ready receives a value when Next may have events again after it had returned none, and when
	// the store is closed.
	Ready() <-chan struct{}

	// Close releases the watcher. Closing again does nothing.
	Close()
}

// Type is the type of an event.
type Type uint8

const (
	Created Type = iota + 1
	Modified
	Deleted
)

// Event is one write.
type Event struct {
	Type Type
	// Record is the record as it was written. For a deletion it has the last value, and the revision
	// of the deletion.
	Record *Record
	// Prev is the record that was there before; nil for a creation.
	Prev *Record
}

// Covers reports whether path covers key: as a prefix or as that one key.
func Covers(path, key string) bool {
	if path == "" || path[len(path)-1] == '/' {
		return strings.HasPrefix(key, path)
	}
	return path == key
}

// CheckKey returns ErrKey if key is not a valid key.
func CheckKey(key string) error {
	if key == "" || key[len(key)-1] == '/' {
		return ErrKey
	}
	return nil
}
