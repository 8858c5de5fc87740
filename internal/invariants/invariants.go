// Package invariants guards checks of data structures that are too expensive for production. A violation is a defect of
// this module, and panics.
//
// The checks are compiled in with the build tag invariants and with the race detector. Enabled is a constant, so the
// compiler drops the body of
//
//	if invariants.Enabled {
//		invariants.Check(len(q.items) == q.len, "the queue has %d items, not %d", len(q.items), q.len)
//	}
//
// in all other builds.
//
// The store in memory and the store of the cache check theirs with every change: revisions rise by one, the log has no
// gaps, the sizes in the tree add up, a watcher skips no event, indexes agree with the objects.
package invariants

import "fmt"

// Check panics with a message if an invariant does not hold.
func Check(holds bool, format string, args ...any) {
	if !holds {
		panic("invariant violated: " + fmt.Sprintf(format, args...))
	}
}
