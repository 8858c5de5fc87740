// Package allocator keeps track of what only one object can have, such as cluster IPs and node
// ports.
package allocator

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// Allocator has the owner of each resource of one kind; a resource has at most one.
//
// Several writes of one owner can be in flight at once, and one of them succeeds. Commit is called
// some time after the write that succeeded, and Rollback not for all that failed. So each
// allocation has the revision of its owner that the write was based on: a commit releases what
// earlier revisions had and this one has not, and keeps what later writes allocate. What a failed
// write without a rollback has allocated stays allocated until the owner's next write or its
// deletion; no resource is ever allocated twice. The caller must serialize all calls.
//
//upstream:pkg/registry/core/service/ipallocator.Interface
//upstream:pkg/registry/core/service/portallocator.PortAllocationOperation
type Allocator[K comparable] struct {
	allocations map[K]allocation
	owners      map[types.UID][]K
}

// allocation is the state of one resource.
type allocation struct {
	owner    types.UID
	revision uint64 // the owner's revision that the write changes
	write    *Write // the last write that allocated it
	fresh    bool   // the owner did not have it before that write
}

// Write is one write of an owner that allocates resources.
type Write struct {
	Owner    types.UID
	Revision uint64
}

// New returns an allocator in which everything is free.
func New[K comparable]() *Allocator[K] {
	return &Allocator[K]{allocations: map[K]allocation{}, owners: map[types.UID][]K{}}
}

// Owner returns the owner of k; ok is false if k is free.
func (a *Allocator[K]) Owner(k K) (types.UID, bool) {
	held, ok := a.allocations[k]
	return held.owner, ok
}

// Allocate allocates k to the owner of the write. It returns false if k has another owner.
func (a *Allocator[K]) Allocate(k K, w *Write) bool {
	held, taken := a.allocations[k]
	if taken && held.owner != w.Owner {
		return false
	}
	if !taken {
		a.owners[w.Owner] = append(a.owners[w.Owner], k)
	}
	a.allocations[k] = allocation{owner: w.Owner, revision: max(held.revision, w.Revision), write: w, fresh: !taken}
	return true
}

// Rollback releases what this write allocated, unless the owner had it before or a later write has
// allocated it too, and returns it.
func (a *Allocator[K]) Rollback(w *Write) []K {
	return a.drop(w.Owner, func(_ K, held allocation) bool { return held.write == w && held.fresh })
}

// Commit releases what the owner had before a revision and does not have in it, and returns it.
func (a *Allocator[K]) Commit(owner types.UID, revision uint64, has []K) []K {
	return a.drop(owner, func(k K, held allocation) bool { return held.revision < revision && !slices.Contains(has, k) })
}

// Release releases all that the owner has, and returns it.
func (a *Allocator[K]) Release(owner types.UID) []K {
	return a.drop(owner, func(K, allocation) bool { return true })
}

func (a *Allocator[K]) drop(owner types.UID, which func(K, allocation) bool) (dropped []K) {
	kept := slices.DeleteFunc(a.owners[owner], func(k K) bool {
		if !which(k, a.allocations[k]) {
			return false
		}
		delete(a.allocations, k)
		dropped = append(dropped, k)
		return true
	})
	if a.owners[owner] = kept; len(kept) == 0 {
		delete(a.owners, owner)
	}
	return dropped
}
