package memory

import "flyball.dev/storage"

// IsCompressed reports whether the value of a record is compressed.
func IsCompressed(r *storage.Record) bool { return entryOf(r).isCompressed() }

// Expire does what the timer of the next expiry does, before it fires.
func Expire(s *Store) { s.expire() }
