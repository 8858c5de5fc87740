package storage

// Partitioned is a [Store] that consists of several stores, each with the keys below some paths and with revisions of its
// own. Watches, and ranges at the latest revision, of a path within one of the stores work as usual.
type Partitioned interface {
	Store

	// Partition returns the store of all keys that path covers. Its revisions are the ones of these keys, and its
	// conditions may be on keys of the other stores.
	Partition(path string) Store
}

// Partition returns the store of all keys that path covers: a part of a [Partitioned] store, or else the store itself.
func Partition(s Store, path string) Store {
	if p, ok := s.(Partitioned); ok {
		return p.Partition(path)
	}
	return s
}
