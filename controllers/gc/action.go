package gc

import (
	"iter"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// action is the next step for one object. At most one of verify, lookup, patch, delete, orphans and enqueue is set. If none
// of these is set, and unresolved is not set, there is nothing to do.
type action struct {
	node node

	// verify is set if the object must first be read live.
	verify bool
	// lookup are the owners that must be read live first.
	lookup []metav1.OwnerReference
	// unresolved is set if the existence of an owner cannot be determined. The object then stays.
	unresolved bool
	// patch replaces the owner references or the finalizers.
	patch *patch
	// removesFinalizer is set if the patch removes a finalizer of an owner because the graph has no dependent that
	// blocks the deletion. Dependents that are not in the graph must be listed first.
	removesFinalizer bool
	// delete is the propagation policy of the deletion of the object.
	delete metav1.DeletionPropagation
	// orphans are the objects that lose references: the dependents of the object, or the object itself if an owner was
	// deleted before the owner had orphaned the object.
	orphans []orphan
	// enqueue are the dependents that must be deleted before the object.
	enqueue []types.UID
}

// patch replaces the list that is not nil.
type patch struct {
	ownerReferences []metav1.OwnerReference
	finalizers      []string
}

// orphan is a dependent with the patch that removes its references to an owner.
type orphan struct {
	dependent node
	patch     patch
}

// ownerState is whether an owner exists.
//
//upstream:pkg/controller/garbagecollector.GarbageCollector.classifyReferences
//upstream:pkg/controller/garbagecollector.GarbageCollector.isDangling
type ownerState int

const (
	// ownerUnknown: the server does not serve the kind of the owner.
	ownerUnknown ownerState = iota
	// ownerUnresolvable: the owner is namespaced and the dependent is cluster-scoped.
	ownerUnresolvable
	ownerAbsent
	ownerPresent
	// ownerWaiting: it exists, but its foreground deletion waits for its dependents.
	ownerWaiting
)

// ownerStates are the states of the owners of an object, by coordinates, because a valid and an
// invalid reference may have the same UID.
type ownerStates map[coordinates]ownerState

// coordinates identify the owner that a reference refers to.
type coordinates struct {
	apiVersion, kind, name string
	uid                    types.UID
}

//upstream:pkg/controller/garbagecollector.ownerReferenceCoordinates
func coordinatesOf(ref metav1.OwnerReference) coordinates {
	return coordinates{ref.APIVersion, ref.Kind, ref.Name, ref.UID}
}

// nextAction returns the next action for an object. found has the states of the owners in the lookup of an earlier
// action.
func (g *graph) nextAction(uid types.UID, found ownerStates) action {
	g.mu.Lock()
	defer g.mu.Unlock()
	v := g.find(uid)
	if v == nil {
		return action{}
	}
	v.mustOrphan = v.mustOrphan && g.dependents[v.id] != nil // the dependents are orphaned by now
	switch {
	case v.unverified:
		return action{node: v.node(), verify: true}
	case slices.ContainsFunc(v.rest().owners, v.leftBehindBy(g)):
		return action{node: v.node(), orphans: []orphan{v.orphanedFrom(v.leftBehindBy(g))}}
	case v.mustOrphan, v.isOrphaningDependents():
		return g.orphanDependents(v)
	case v.isDeletingDependents():
		return g.processDeletingDependents(v)
	case v.beingDeleted || len(v.rest().owners) == 0:
		return action{}
	default:
		return g.attemptToDelete(v, found)
	}
}

// dependentsOf returns the dependents of an object.
func (g *graph) dependentsOf(v *vertex) iter.Seq[*vertex] {
	if o := g.dependents[v.id]; o != nil {
		return o.dependents.all()
	}
	return func(func(*vertex) bool) {}
}

// orphanDependents returns the action for an owner with the finalizer orphan. It removes the references of the
// dependents, and then the finalizer.
//
//upstream:pkg/controller/garbagecollector.GarbageCollector.orphanDependents
func (g *graph) orphanDependents(v *vertex) action {
	a := action{node: v.node()}
	for dependent := range g.dependentsOf(v) {
		a.orphans = append(a.orphans, dependent.orphanedFrom(func(ref *metav1.OwnerReference) bool { return ref.UID == a.node.uid }))
	}
	if len(a.orphans) == 0 {
		a.patch, a.removesFinalizer = removeFinalizer(&a.node, metav1.FinalizerOrphanDependents), true
	}
	return a
}

// orphanedFrom returns an object with the patch that removes its references to some owners.
func (v *vertex) orphanedFrom(isOwner func(*metav1.OwnerReference) bool) orphan {
	n := v.node()
	return orphan{n, patch{ownerReferences: without(n.ownerReferences, func(ref metav1.OwnerReference) bool { return isOwner(&ref) })}}
}

// leftBehindBy returns a predicate on the references of v. The predicate is true if the owner was deleted before the owner had
// orphaned v: somebody has removed the finalizer orphan, or has deleted the owner again with the policy Background. As in
// Kubernetes, v is orphaned nevertheless.
//
//upstream:pkg/controller/garbagecollector.GarbageCollector.attemptToOrphanWorker
func (v *vertex) leftBehindBy(g *graph) func(*metav1.OwnerReference) bool {
	return func(ref *metav1.OwnerReference) bool {
		owner := g.tombstone(ref.UID)
		if owner == nil {
			return false
		}
		_, ok := owner.leftBehind[v]
		return ok
	}
}

// processDeletingDependents returns the action for an owner in foreground deletion. It deletes the dependents that block
// the owner, and then removes the finalizer.
//
//upstream:pkg/controller/garbagecollector.GarbageCollector.processDeletingDependentsItem
func (g *graph) processDeletingDependents(v *vertex) action {
	a := action{node: v.node()}
	blocked := false
	for d := range g.dependentsOf(v) {
		if !slices.ContainsFunc(d.rest().owners, func(ref *metav1.OwnerReference) bool {
			return blocksOwnerDeletion(*ref) && ref.UID == a.node.uid
		}) {
			continue
		}
		blocked = true
		if !d.beingDeleted {
			a.enqueue = append(a.enqueue, d.uid())
		}
	}
	if !blocked {
		a.patch, a.removesFinalizer = removeFinalizer(&a.node, metav1.FinalizerDeleteDependents), true
	}
	return a
}

// attemptToDelete returns the action for a dependent. It deletes the dependent if no owner is solid, or else removes its
// dangling references. A solid owner is present, and a dangling owner is absent. The third state is an owner that waits
// for the deletion of its dependents.
//
//upstream:pkg/controller/garbagecollector.GarbageCollector.attemptToDeleteItem
func (g *graph) attemptToDelete(v *vertex, found ownerStates) action {
	a := action{node: v.node()}
	n := &a.node
	solid, waitingForDependentsDeletion := false, false
	removable := map[types.UID]bool{} // as in Kubernetes, the patch removes every reference to the UID, also a valid one
	for _, ref := range n.ownerReferences {
		state, ok := g.ownerState(n, ref, found)
		switch {
		case !ok:
			a.lookup = append(a.lookup, ref)
			continue
		case state == ownerUnknown, state == ownerUnresolvable:
			a.unresolved = true
		case state == ownerPresent:
			solid = true
		default:
			waitingForDependentsDeletion = waitingForDependentsDeletion || state == ownerWaiting
			removable[ref.UID] = true
		}
	}
	switch {
	case len(a.lookup) > 0, a.unresolved:
	case solid && len(removable) > 0:
		a.patch = &patch{ownerReferences: without(n.ownerReferences, func(ref metav1.OwnerReference) bool {
			return removable[ref.UID]
		})}
	case solid:
	case waitingForDependentsDeletion && g.dependents[v.id] != nil:
		if owners, changed := g.unblockOwnerReferences(v, n); changed {
			a.patch = &patch{ownerReferences: owners}
		} else {
			a.delete = metav1.DeletePropagationForeground
		}
	case slices.Contains(n.finalizers, metav1.FinalizerOrphanDependents):
		a.delete = metav1.DeletePropagationOrphan
	case slices.Contains(n.finalizers, metav1.FinalizerDeleteDependents):
		a.delete = metav1.DeletePropagationForeground
	default:
		a.delete = metav1.DeletePropagationBackground
	}
	return a
}

// ownerState returns the state of an owner. ok is false if the owner must be read live. The graph proves that an owner is
// present. An owner is absent if a live read did not find the owner, or if an informer has delivered the deletion of the
// owner and the server no longer serves the kind. A deleted UID is never used again.
func (g *graph) ownerState(n *node, ref metav1.OwnerReference, found ownerStates) (state ownerState, ok bool) {
	deleted := g.tombstone(ref.UID)
	wasIt := deleted != nil && deleted.lastKnown != nil && deleted.lastKnown.isReferredToBy(&ref, n.namespace)
	if wasIt && deleted.confirmedAbsent {
		return ownerAbsent, true
	}
	if state, ok = found[coordinatesOf(ref)]; ok {
		if state == ownerUnknown && wasIt {
			return ownerAbsent, true
		}
		return state, true
	}
	owner := g.find(ref.UID)
	if owner != nil && owner.isReferredToBy(&ref, n.namespace) && !owner.isDeletingDependents() {
		return ownerPresent, true
	}
	return ownerUnknown, false
}

// unblockOwnerReferences returns the references of an object without blockOwnerDeletion if a dependent of the object
// waits for its own dependents. The two may be in a cycle, in which each would wait for the other.
//
//upstream:pkg/controller/garbagecollector.node.unblockOwnerReferencesStrategicMergePatch
func (g *graph) unblockOwnerReferences(v *vertex, n *node) (owners []metav1.OwnerReference, changed bool) {
	for d := range g.dependentsOf(v) {
		if !d.isDeletingDependents() {
			continue
		}
		owners = slices.Clone(n.ownerReferences)
		for i := range owners {
			changed = changed || blocksOwnerDeletion(owners[i])
			owners[i].BlockOwnerDeletion = nil
		}
		return owners, changed
	}
	return nil, false
}

// removeFinalizer returns the patch that removes a finalizer.
//
//upstream:pkg/controller/garbagecollector.GarbageCollector.removeFinalizer
func removeFinalizer(n *node, finalizer string) *patch {
	return &patch{finalizers: without(n.finalizers, func(f string) bool { return f == finalizer })}
}

// without returns a new slice, never nil, of the elements for which drop returns false.
func without[T any](from []T, drop func(T) bool) []T {
	kept := make([]T, 0, len(from))
	for _, x := range from {
		if !drop(x) {
			kept = append(kept, x)
		}
	}
	return kept
}
