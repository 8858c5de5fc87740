package memory

import "flyball.dev/storage"

// IsCompressed reports whether the value of a record is compressed.
func IsCompressed(r *storage.Record) bool { return entryOf(r).isCompressed() }
