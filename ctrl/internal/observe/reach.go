package observe

import (
	"maps"
	"math"
	"strconv"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Reach says which writes are not recorded any more, so that nobody takes a write of a reconcile that is forgotten for
// somebody else's. The zero value has none.
type Reach struct {
	// versions has the greatest resource version that was written, by kind. The versions of a kind rise.
	versions map[schema.GroupKind]uint64
	deleted  map[schema.GroupKind]bool
}

// add adds a write that is not recorded any more.
func (r *Reach) add(w *Write) {
	kind := w.Type.GVK.GroupKind()
	switch {
	case w.Err != "" || w.DryRun:
	case w.Deletes():
		if r.deleted == nil {
			r.deleted = map[schema.GroupKind]bool{}
		}
		r.deleted[kind] = true
	default:
		version, err := strconv.ParseUint(w.Version, 10, 64)
		if err != nil {
			version = math.MaxUint64 // any version may be the one
		}
		r.addVersion(kind, version)
	}
}

func (r *Reach) addVersion(kind schema.GroupKind, version uint64) {
	if r.versions == nil {
		r.versions = map[schema.GroupKind]uint64{}
	}
	r.versions[kind] = max(r.versions[kind], version)
}

// Merge adds all that is in another Reach.
func (r *Reach) Merge(o Reach) {
	for kind, version := range o.versions {
		r.addVersion(kind, version)
	}
	if r.deleted == nil && len(o.deleted) > 0 {
		r.deleted = map[schema.GroupKind]bool{}
	}
	maps.Copy(r.deleted, o.deleted)
}

// clone returns a copy.
func (r *Reach) clone() Reach { return Reach{maps.Clone(r.versions), maps.Clone(r.deleted)} }

// Forgot reports whether a write that is not recorded any more may have written a version of an object, or deleted it.
func (r *Reach) Forgot(kind schema.GroupKind, version string, deleted bool) bool {
	if deleted && r.deleted[kind] {
		return true
	}
	greatest, ok := r.versions[kind]
	if !ok {
		return false
	}
	n, err := strconv.ParseUint(version, 10, 64)
	return err != nil || n <= greatest
}
