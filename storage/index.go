package storage

import "errors"

// ErrNoIndex means that a query names an index that the store does not have.
var ErrNoIndex = errors.New("storage: there is no such index")

// Indexer is a [Store] that can find records by a part of their values. Range then supports [Query].Index.
type Indexer interface {
	Store

	// AddIndex adds an index, with the present records in it. If there is an index of the same name, AddIndex does
	// nothing: the two must be equivalent.
	//
	// Possible errors: ErrClosed.
	AddIndex(i Index) error
}

// Index finds records by a part of their values. It is consistent with all other reads: a query by an index has the
// records that a query of the path has at the same revision.
type Index struct {
	Name string
	// Path covers the records in the index.
	Path string
	// Of returns what the record is found by, or "" for a record that is not in the index. It depends only on the value
	// of the record. The store calls it with its lock held.
	Of func(r *Record) string
}
