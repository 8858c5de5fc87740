package store

import "flyball.dev/storage"

// HasObject reports whether a decoded object is cached with a record.
func HasObject(r *storage.Record) bool {
	for _, cached := range r.AllCached() {
		if objectOf(cached) != nil {
			return true
		}
	}
	return false
}

// NewCorruptError returns an error of a transformer that says that the object is corrupt.
func NewCorruptError(err error) error { return &corruptError{untransformable, 0, err} }
