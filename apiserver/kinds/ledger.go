package kinds

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// ledger says who has each of the things of one sort, which have at most one owner each.
//
// Several writes of one owner can be under way at once, of which one succeeds, and the ledger hears of
// it late or, of some failures, never. So each entry knows which revision of its owner it was taken
// for: a write that succeeds settles what earlier revisions had, and leaves alone what later writes
// take. What is forgotten stays with its owner until the owner's next write or its end; nothing is
// ever given to two. The caller locks.
type ledger[K comparable] struct {
	entries map[K]entry
	owners  map[types.UID][]K
}

type entry struct {
	owner types.UID
	basis uint64  // the owner's revision that the write changes
	by    *taking // the last write that took it
	fresh bool    // the owner did not have it before that write
}

// taking is one write of an owner, while what it needs is taken.
type taking struct {
	owner types.UID
	basis uint64
}

func newLedger[K comparable]() *ledger[K] {
	return &ledger[K]{entries: map[K]entry{}, owners: map[types.UID][]K{}}
}

func (l *ledger[K]) ownerOf(k K) (types.UID, bool) {
	e, ok := l.entries[k]
	return e.owner, ok
}

// take gives k to the owner, unless somebody else has it.
func (l *ledger[K]) take(k K, t *taking) bool {
	e, taken := l.entries[k]
	if taken && e.owner != t.owner {
		return false
	}
	if !taken {
		l.owners[t.owner] = append(l.owners[t.owner], k)
	}
	l.entries[k] = entry{owner: t.owner, basis: max(e.basis, t.basis), by: t, fresh: !taken}
	return true
}

// release takes back what only this write took.
func (l *ledger[K]) release(t *taking) {
	l.drop(t.owner, func(_ K, e entry) bool { return e.by == t && e.fresh })
}

// settle takes back what the owner had before a revision and has not in it.
func (l *ledger[K]) settle(owner types.UID, revision uint64, has []K) {
	l.drop(owner, func(k K, e entry) bool { return e.basis < revision && !slices.Contains(has, k) })
}

// free takes back all that the owner has.
func (l *ledger[K]) free(owner types.UID) {
	l.drop(owner, func(K, entry) bool { return true })
}

func (l *ledger[K]) drop(owner types.UID, which func(K, entry) bool) {
	kept := slices.DeleteFunc(l.owners[owner], func(k K) bool {
		if !which(k, l.entries[k]) {
			return false
		}
		delete(l.entries, k)
		return true
	})
	if l.owners[owner] = kept; len(kept) == 0 {
		delete(l.owners, owner)
	}
}
