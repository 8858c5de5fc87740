package storage

import "context"

// Transactor is a [Store] with transactions that read before they write.
type Transactor interface {
	Store

	// Transact calls f with the latest state, and carries out the writes that f returns as Commit does, atomically: of what
	// f has read, nothing changes in between. It returns the revision of the writes, which is later than the latest of the
	// view. If f returns an error, Transact returns it and writes nothing. Without writes, Transact returns the latest
	// revision of the view, which was the latest of the store at a time during the call.
	//
	// f must not use the store. The view is valid until f returns. Transact may call f several times, with later states,
	// and then only the last call counts. A store may bound the number of writes, and of records that f reads, by
	// MaxOperations; the store in memory takes any number.
	//
	// Possible errors: the error of f, the errors of Commit.
	Transact(ctx context.Context, f func(View) ([]Write, error)) (revision uint64, err error)
}

// View is the state of a [Transactor] during a transaction.
type View interface {
	// Revisions returns the latest and the oldest revision that can be read.
	Revisions() (latest, oldest uint64)

	// Range returns records as the method of the store does, but without indexes.
	//
	// Possible errors: ErrCompacted and ErrFuture for q.Revision, ErrNoIndex for q.Index.
	Range(q Query) (Page, error)

	// HasLease reports whether there is a lease. A store that is not a [Lessor] has none. A store that cannot tell returns
	// true, and Transact ErrNoLease.
	HasLease(id int64) bool
}
