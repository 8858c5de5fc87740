package store

// NewCorruptError returns an error of a transformer that says that the object is corrupt.
func NewCorruptError(err error) error { return &corruptError{untransformable, 0, err} }
