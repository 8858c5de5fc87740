package storagetest

import "flyball.dev/storage"

// Kept is a store that stays open when its control plane stops, so that another control plane can start on it.
type Kept struct{ storage.Store }

// Close implements [storage.Store]. It does nothing.
func (Kept) Close() error { return nil }
