// Package storage is the contract between the API server and what keeps its records: a key-value
// store with one revision for everything.
//
// Every successful write gets the next revision, which is higher than all before it. From that follow
// compare-and-swap (a record's revision is its version), consistent reads (a range at a revision) and
// watches (the writes after a revision, in order).
//
// Keys are paths such as /core/pods/default/web. A key is not empty and does not end in a slash. Where
// a method takes a path, one that is empty or ends in a slash stands for all keys that begin with it,
// and any other for that one key.
//
// # Concurrency and ownership
//
// All methods of a [Store] may be called from any number of goroutines. Records and events are shared
// by all readers and are immutable, except for the cached values of a record. A write that has returned
// is visible to every read that begins afterwards, and its event is delivered to every watcher whose path
// covers it. Neither readers nor slow watchers block a writer.
package storage

import (
	"context"
	"errors"
	"math"
	"strings"
	"time"
)

// The errors of a store, to be tested with errors.Is. Anything else that a method returns is a failure
// of the medium below (or of the context) and leaves open whether a write took place.
var (
	// ErrNotFound says that there is no record under the key.
	ErrNotFound = errors.New("storage: key not found")
	// ErrConflict says that the record is not at the revision that the write asked for.
	ErrConflict = errors.New("storage: revision conflict")
	// ErrCompacted says that the revision is older than the history that the store has kept.
	ErrCompacted = errors.New("storage: revision is compacted")
	// ErrFuture says that the store has not come to the revision yet.
	ErrFuture = errors.New("storage: revision is in the future")
	// ErrKey says that a key is empty or ends in a slash.
	ErrKey = errors.New("storage: not a key")
	// ErrClosed says that the store was closed.
	ErrClosed = errors.New("storage: closed")
)

// First is the revision of an empty store.
const First uint64 = 1

// Values of [Write.If] and of Delete's revision that are not the revision of a record.
const (
	// Absent asks that there be no record under the key.
	Absent uint64 = 0
	// Any asks for nothing.
	Any uint64 = math.MaxUint64
)

// Store keeps records.
type Store interface {
	// Revisions returns the revision of the latest write, and the oldest one that the store can still be
	// read at and watched from: what Compact was asked for, or what the store has come to by itself, as
	// its history is bounded in size and time.
	//
	// Possible errors: ErrClosed.
	Revisions(ctx context.Context) (latest, oldest uint64, err error)

	// Get returns the record under key.
	//
	// Possible errors: ErrNotFound, ErrClosed.
	Get(ctx context.Context, key string) (*Record, error)

	// Range returns records in the order of their keys, all as they were at one revision. The time it takes
	// grows with the records that it returns and not with those before and after them, so that reading
	// all in pages of the same revision takes about as long as reading all at once.
	//
	// Possible errors: ErrCompacted and ErrFuture for q.Revision, ErrClosed.
	Range(ctx context.Context, q Query) (Page, error)

	// Put creates or replaces a record and returns it as it then is. With ErrConflict it returns the
	// record that is there instead, or nil if there is none, so that the caller can try again.
	//
	// Possible errors: ErrConflict, ErrKey, ErrClosed.
	Put(ctx context.Context, w Write) (*Record, error)

	// Delete removes the record under key if it is at the given revision, or at all if that is Any.
	// It returns what a watcher is shown: the last value with the revision of the deletion. With
	// ErrConflict it returns the record that is there.
	//
	// Possible errors: ErrNotFound, ErrConflict, ErrClosed.
	Delete(ctx context.Context, key string, revision uint64) (*Record, error)

	// Watch returns a watcher of all writes to path after a revision. Zero stands for the latest one;
	// one in the future is waited for, and writes up to it are left out. The context is that of the
	// call, and does not end the watcher.
	//
	// Possible errors: ErrCompacted, ErrClosed.
	Watch(ctx context.Context, path string, after uint64) (Watcher, error)

	// Compact forgets the history up to a revision, which can then no longer be read at or watched
	// from, except for that revision itself. Compacting what is compacted already does nothing.
	//
	// Possible errors: ErrFuture, ErrClosed.
	Compact(ctx context.Context, revision uint64) error

	// Close ends all watchers and releases what the store holds. Nothing of the store runs when it
	// returns. Closing again does nothing.
	Close() error
}

// Query selects the records of a range.
type Query struct {
	Path string
	// Start is the first key that is wanted; empty for the first of the path.
	Start string
	// Limit is the most records to return; zero is no limit.
	Limit int
	// Revision is the one to read at; zero is the latest.
	Revision uint64
}

// Page is the answer to a query.
type Page struct {
	Records []*Record
	// Revision is the one that was read at.
	Revision uint64
	// Remaining is how many records of the path follow the last of these, at that revision.
	Remaining int
}

// Write is one record to be written.
type Write struct {
	Key string
	// Value belongs to the store from now on and must not be changed.
	Value []byte
	// If is the revision that the record must be at: Absent to create, Any for no condition.
	If uint64
	// Expires is when the store shall delete the record by itself; zero is never.
	Expires time.Time
	// Seal, if not nil, is called with the new record, which has its revision, before anybody else can
	// see it: the writer can set a cached value, so that what it wrote is never decoded. It must neither wait
	// nor use the store. It is not called if the write fails.
	Seal func(*Record)
}

// Watcher hands out the writes to one path, each once, in the order of their revisions. It does so when
// asked, from the history that all watchers share, and so runs nothing of its own. It must be used by
// one goroutine at a time, and closed.
type Watcher interface {
	// Next returns the events that come next, without waiting for any; the slice is valid until the
	// next call. All events of the path up to revision have been returned with it, even if there were
	// none: it is progress that the caller can report.
	//
	// Possible errors: ErrCompacted if the watcher was so slow that its next event is no longer in the
	// history, ErrClosed. After an error there will be no more events.
	Next() (events []*Event, revision uint64, err error)

	// Ready receives a value when there may be something for Next after it had nothing to return, and
	// when the store is closed.
	Ready() <-chan struct{}

	// Close lets go of the watcher. Closing again does nothing.
	Close()
}

// Type is what a write did to a record.
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

// Covers says whether path stands for key, alone or among others.
func Covers(path, key string) bool {
	if path == "" || path[len(path)-1] == '/' {
		return strings.HasPrefix(key, path)
	}
	return path == key
}

// CheckKey returns ErrKey if key is none.
func CheckKey(key string) error {
	if key == "" || key[len(key)-1] == '/' {
		return ErrKey
	}
	return nil
}
