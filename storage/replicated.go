package storage

import "context"

// Reader is the part of a [Store] that reads.
type Reader interface {
	// Revisions, Get and Range are the methods of Store.
	Revisions(ctx context.Context) (latest, oldest uint64, err error)
	Get(ctx context.Context, key string) (*Record, error)
	Range(ctx context.Context, q Query) (Page, error)
}

// Replicated is a [Store] that reads from a copy of its records. Before a read, it asks its medium how far the copy must be.
type Replicated interface {
	Store

	// Replica returns a reader of the copy as it is. Its reads ask nobody, so they may miss the latest writes, but no write
	// that an earlier read of the store or of the copy has seen.
	Replica() Reader
}

// Replica returns a reader for requests that accept any state that they can get without a request to the medium: the copy of
// a [Replicated] store, or else the store itself.
func Replica(s Store) Reader {
	if r, ok := s.(Replicated); ok {
		return r.Replica()
	}
	return s
}
