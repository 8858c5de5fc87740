// Package storage defines the contract between the API server and its storage: a key-value store in which all writes
// share one revision counter.
//
// Every successful write gets the next revision, which is higher than all earlier ones, as in etcd. The writes of a
// transaction share one revision. Three operations depend on revisions: compare-and-swap (the write names the revision
// of the record that it replaces), consistent reads (a range at a revision) and watches (the writes after a revision, in
// order).
//
// Keys are paths such as /registry/pods/default/web. Any string but the empty one is a key. A path that is empty or ends in
// a slash is a prefix: it covers all keys that begin with it. Any other path covers a single key.
//
// # Concurrency and ownership
//
// All methods of a [Store] may be called concurrently. Readers share records and events, which are immutable except for
// the cached values of a record. Once a write has returned, every read that begins afterwards sees it, and every
// watcher of a path that covers the key gets its event. Neither readers nor slow watchers block a writer.
//
// # What the contract leaves to its users
//
// A write may have conditions on the revisions of other records, as the compares of a transaction in etcd. The creation
// of an object in a namespace, for example, requires the revision at which the namespace was found not to be
// terminating.
//
// The contract has what all adapters need: a write of several keys at one revision, with as many operations as etcd
// allows, and a callback with the committed record, because the revision of a write to etcd is not known before others
// can see the record.
//
// The layer above caches values with a record: the decoded object and its encodings. These cached values are the watch
// cache of the API server.
//
// The wall clock may be set at any time, so a store compares expiration times by their monotonic reading.
package storage

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"
)

// The errors of a store, to be tested with errors.Is. Any other error comes from the underlying medium or from the
// context. After such an error, the write may or may not have taken place.
var (
	// ErrNotFound means that there is no record under the key.
	ErrNotFound = errors.New("storage: key not found")
	// ErrConflict means that the record is not at the revision that the write requires.
	ErrConflict = errors.New("storage: revision conflict")
	// ErrCondition means that a [Condition] of the write does not hold: another record is not at the required revision.
	ErrCondition = errors.New("storage: the condition on another record does not hold")
	// ErrCompacted means that the revision is older than the history that the store keeps.
	ErrCompacted = errors.New("storage: revision is compacted")
	// ErrFuture means that the store has not reached the revision yet.
	ErrFuture = errors.New("storage: revision is in the future")
	// ErrKey means that a key is empty.
	ErrKey = errors.New("storage: not a key")
	// ErrDuplicate means that two writes of a transaction have the same key.
	ErrDuplicate = errors.New("storage: duplicate key in a transaction")
	// ErrTooMany means that a transaction has more than MaxOperations.
	ErrTooMany = errors.New("storage: too many operations in a transaction")
	// ErrNoCheckpoint means that Reset was called before Checkpoint.
	ErrNoCheckpoint = errors.New("storage: there is no checkpoint")
	// ErrFenced means that the store was reset since the request began.
	ErrFenced = errors.New("storage: the store was reset meanwhile")
	// ErrNoSpace means that the medium below is full. Reads go on, and so do writes when there is space.
	ErrNoSpace = errors.New("storage: no space left")
	// ErrClosed means that the store is closed.
	ErrClosed = errors.New("storage: closed")
)

// MaxOperations is the largest number of writes in a transaction, together with their conditions on other records. It is
// the default of etcd.
const MaxOperations = 128

// First is the revision of an empty store.
const First uint64 = 1

// Values for [Write.If], [Condition.If] and the revision of Delete that are not the revision of a record.
const (
	// Absent requires that there is no record under the key.
	Absent uint64 = 0
	// Any means no condition.
	Any uint64 = math.MaxUint64
)

// Store is a store of records.
type Store interface {
	// Revisions returns the revision of the latest write, and the oldest revision that the store can be read at and
	// watched from. The oldest revision rises with Compact, and also by itself, because the store bounds its history in
	// size and time.
	//
	// Possible errors: ErrClosed.
	Revisions(ctx context.Context) (latest, oldest uint64, err error)

	// Get returns the record under key.
	//
	// Possible errors: ErrNotFound, ErrClosed.
	Get(ctx context.Context, key string) (*Record, error)

	// Range returns records in the order of their keys, all at one revision. The time depends on the number of records
	// returned, not on the size of the store, so reading a path in pages at one revision takes about as long as reading
	// it at once.
	//
	// Possible errors: ErrCompacted and ErrFuture for q.Revision, ErrNoIndex for q.Index, ErrClosed.
	Range(ctx context.Context, q Query) (Page, error)

	// Put creates or replaces a record and returns it. With ErrConflict, Put returns the current record, or nil if
	// there is none, so that the caller can try again. Put returns ErrCondition only if the record itself is at the
	// required revision. If the context is done or its deadline has passed, Put writes nothing.
	//
	// Possible errors: ErrConflict, ErrCondition, ErrKey, ErrFenced, ErrClosed, the error of the context.
	Put(ctx context.Context, w Write) (*Record, error)

	// Delete removes the record under key if the record is at the given revision; the revision Any matches every
	// record. Delete returns the record of the deletion event, which has the last value and the revision of the
	// deletion. With ErrConflict, Delete returns the current record. If the context is done or its deadline has passed,
	// Delete removes nothing.
	//
	// Possible errors: ErrNotFound, ErrConflict, ErrFenced, ErrClosed, the error of the context.
	Delete(ctx context.Context, key string, revision uint64) (*Record, error)

	// Commit carries out several writes atomically, at one revision, and returns their records in the order of the
	// writes; for a deletion, the record of the deletion event. All conditions hold before the first write. No two
	// writes have the same key. If one of the writes fails, none takes place. With ErrConflict and ErrNotFound, Commit
	// returns the current records, with nil for a key without a record. Commit with a single write does the same as Put
	// or Delete, and without any write does nothing.
	//
	// Possible errors: ErrNotFound, ErrConflict, ErrCondition, ErrKey, ErrDuplicate, ErrTooMany, ErrFenced, ErrClosed, the
	// error of the context.
	Commit(ctx context.Context, writes []Write) ([]*Record, error)

	// Watch returns a watcher of all writes to path after a revision; zero means the latest revision. If the revision
	// is in the future, the watcher skips all writes up to it. The context bounds the call, not the watcher.
	//
	// Possible errors: ErrCompacted, ErrClosed.
	Watch(ctx context.Context, path string, after uint64) (Watcher, error)

	// Compact drops the history before a revision. Reads at earlier revisions and watches from them then fail; the
	// revision itself stays readable. Compacting at a revision that is already compacted does nothing.
	//
	// Possible errors: ErrFuture, ErrClosed.
	Compact(ctx context.Context, revision uint64) error

	// Close closes all watchers and releases the resources of the store. When Close returns, the store has no running
	// goroutine or timer. Closing again does nothing.
	Close() error
}

// Checker is a [Store] that knows whether it can write.
type Checker interface {
	Store

	// Healthy returns nil if the next write is likely to succeed, and else why not: the error of the last
	// write, such as ErrNoSpace. It may write to the medium to find out.
	Healthy() error
}

// Query selects the records of a range.
type Query struct {
	Path string
	// Start is the first key that may be returned; empty means the first key of the path.
	Start string
	// End is the first key after Start that may not be returned; empty means no bound but the path.
	End string
	// Limit is the largest number of records to return; zero means no limit.
	Limit int
	// Revision is the revision to read at; zero means the latest.
	Revision uint64
	// Scan says that the caller reads the values once and caches nothing with the records. Reading them then is no reason
	// for the store to keep them ready for the next reader.
	Scan bool
	// Index, if not empty, is the name of an index of an [Indexer]. The query then has only those records of the path
	// that the index finds by Value. Value is not empty.
	Index, Value string
}

// Page is the result of a query.
type Page struct {
	Records []*Record
	// Revision is the revision that the records were read at.
	Revision uint64
	// Remaining is the number of selected records after this page, at the same revision.
	Remaining int
}

// Write is a record to be written, or to be deleted.
type Write struct {
	Key string
	// Value becomes the property of the store. The caller must not change it.
	Value []byte
	// Delete, in a write of Commit, removes the record. The write then has no value and no expiry.
	Delete bool
	// If is the revision that the record must be at: Absent to create, Any for no condition.
	If uint64
	// Require lists conditions on other records. The store checks the conditions and writes the record atomically.
	Require []Condition
	// Expires is when the store deletes the record; zero means never.
	Expires time.Time
	// Lease is the lease to attach the record to; zero means none. See [Lessor]; other stores ignore it.
	Lease int64
	// OnCommit, if not nil, is called with the new record, including its revision, before the write returns. The writer
	// can cache the decoded value then. A store calls OnCommit before other readers can see the record if it can, so
	// that no reader has to decode the value. OnCommit must neither block nor use the store. It may also be called for a
	// write that fails in the end.
	OnCommit func(*Record)
}

// Condition is a requirement on another record, like a compare of an etcd transaction.
type Condition struct {
	Key string
	// If is the revision that the record must be at: Absent for no record, Any for no condition.
	If uint64
}

// Watcher returns the writes to one path, each once, in the order of their revisions. A watcher has no goroutine: Next
// reads from the history that all watchers share. Only one goroutine may use a watcher at a time. The caller must close
// it.
type Watcher interface {
	// Next returns the next events without waiting; the slice is valid until the next call. Once Next has returned, the
	// caller has all events of the path up to revision, even if there were none, and can report the revision as
	// progress. Next returns all events of a revision together, in the order of the writes. The revision is never earlier
	// than before, and never earlier than the one that the watch began after, which may be in the future.
	//
	// Possible errors: ErrCompacted if the history no longer has the next event, ErrClosed. No events follow an error.
	Next() (events []*Event, revision uint64, err error)

	// Ready receives a value when Next may have events again after it returned none, and when the store is closed.
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
	// Prev is the previous record; nil for a creation.
	Prev *Record
}

// Covers reports whether path covers key, as a prefix or as the key itself.
func Covers(path, key string) bool {
	if path == "" || path[len(path)-1] == '/' {
		return strings.HasPrefix(key, path)
	}
	return path == key
}

// Covers reports whether the query selects key, but for its limit.
func (q Query) Covers(key string) bool {
	return Covers(q.Path, key) && key >= q.Start && (q.End == "" || key < q.End)
}

// CheckKey returns ErrKey if key is not a valid key.
func CheckKey(key string) error {
	if key == "" {
		return ErrKey
	}
	return nil
}

// CheckWrites returns ErrKey, ErrDuplicate or ErrTooMany if writes are not a valid transaction.
func CheckWrites(writes []Write) error {
	if len(writes) == 1 {
		return CheckKey(writes[0].Key)
	}
	operations := len(writes)
	for i := range writes {
		operations += len(writes[i].Require)
	}
	if operations > MaxOperations {
		return fmt.Errorf("%w: %d, and at most %d are allowed", ErrTooMany, operations, MaxOperations)
	}
	return CheckKeys(writes)
}

// CheckKeys returns ErrKey or ErrDuplicate if a transaction cannot have the keys of writes.
func CheckKeys(writes []Write) error {
	seen := make(map[string]bool, len(writes))
	for i := range writes {
		key := writes[i].Key
		if err := CheckKey(key); err != nil {
			return err
		}
		if seen[key] {
			return fmt.Errorf("%w: %s", ErrDuplicate, key)
		}
		seen[key] = true
	}
	return nil
}
