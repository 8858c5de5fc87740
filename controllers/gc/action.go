package gc

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// action is what is to be done for one object. At most one of lookup, patch, delete, orphans and
// enqueue is set; none means that there is nothing to do.
type action struct {
	node node

	// verify is set if the object must first be read live.
	verify bool
	// lookup are the owners that must be read live first.
	lookup []metav1.OwnerReference
	// invalidOwners are the references to owners in another namespace.
	invalidOwners []metav1.OwnerReference
	// unresolved is set if it cannot be determined whether an owner exists, so that nothing can be
	// done.
	unresolved bool
	// patch replaces the owner references or the finalizers.
	patch *patch
	// removesFinalizer is set if the patch removes a finalizer of an owner because the graph has no
	// dependent for which the deletion waits. Dependents that are not in the graph must be listed
	// first.
	removesFinalizer bool
	// delete is the propagation policy with which the object is to be deleted.
	delete metav1.DeletionPropagation
	// orphans are the dependents whose references to the object are to be removed.
	orphans []orphan
	// enqueue are the dependents to be enqueued, because they must be deleted before the object.
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

func coordinatesOf(ref metav1.OwnerReference) coordinates {
	return coordinates{ref.APIVersion, ref.Kind, ref.Name, ref.UID}
}

// nextAction returns what is to be done for an object now. found has the states of the owners in
// the lookup of an earlier action.
func (g *graph) nextAction(uid types.UID, found ownerStates) action {
	g.mu.Lock()
	defer g.mu.Unlock()
	o := g.uidToNode[uid]
	switch {
	case o == nil:
		return action{}
	case o.unverified:
		return action{node: *o, verify: true}
	case o.isOrphaningDependents():
		return g.orphanDependents(o)
	case o.isDeletingDependents():
		return g.processDeletingDependents(o)
	case o.beingDeleted || len(o.ownerReferences) == 0:
		return action{}
	default:
		return g.attemptToDelete(o, found)
	}
}

// orphanDependents returns the action for an owner with the finalizer orphan: to remove the
// references of its dependents, and then the finalizer.
func (g *graph) orphanDependents(o *node) action {
	p := action{node: *o}
	for _, d := range g.dependents[o.uid] {
		rest := without(d.ownerReferences, func(ref metav1.OwnerReference) bool { return ref.UID == o.uid })
		p.orphans = append(p.orphans, orphan{*d, patch{ownerReferences: rest}})
	}
	if len(p.orphans) == 0 {
		p.patch, p.removesFinalizer = removeFinalizer(o, metav1.FinalizerOrphanDependents), true
	}
	return p
}

// processDeletingDependents returns the action for an owner in foreground deletion: to delete the
// dependents that block it, and then to remove the finalizer.
func (g *graph) processDeletingDependents(o *node) action {
	p := action{node: *o}
	blocked := false
	for uid, d := range g.dependents[o.uid] {
		if uid == o.uid {
			continue // an object does not block its own deletion
		}
		if !slices.ContainsFunc(d.ownerReferences, func(ref metav1.OwnerReference) bool {
			return ref.UID == o.uid && blocksOwnerDeletion(ref) && o.isReferredToBy(ref, d.namespace)
		}) {
			continue
		}
		blocked = true
		if !d.beingDeleted {
			p.enqueue = append(p.enqueue, uid)
		}
	}
	if !blocked {
		p.patch, p.removesFinalizer = removeFinalizer(o, metav1.FinalizerDeleteDependents), true
	}
	return p
}

// attemptToDelete returns the action for a dependent: to delete it if none of its owners is solid,
// or else to remove its dangling references. A solid owner is present; a dangling one is absent;
// the third state is an owner that waits for the deletion of its dependents.
func (g *graph) attemptToDelete(o *node, found ownerStates) action {
	p := action{node: *o}
	solid, waitingForDependentsDeletion := false, false
	removable := map[coordinates]bool{}
	for _, ref := range o.ownerReferences {
		v, ok := g.ownerState(o, ref, found)
		switch {
		case !ok:
			p.lookup = append(p.lookup, ref)
			continue
		case v == ownerUnknown:
			p.unresolved = true
		case v == ownerUnresolvable:
			p.unresolved = true
			p.invalidOwners = append(p.invalidOwners, ref)
		case v == ownerPresent:
			solid = true
		default:
			waitingForDependentsDeletion = waitingForDependentsDeletion || v == ownerWaiting
			removable[coordinatesOf(ref)] = true
		}
		if owner := g.uidToNode[ref.UID]; v == ownerAbsent && owner != nil && !owner.canOwnIn(o.namespace) {
			p.invalidOwners = append(p.invalidOwners, ref)
		}
	}
	switch {
	case len(p.lookup) > 0, p.unresolved:
	case solid && len(removable) > 0:
		p.patch = &patch{ownerReferences: without(o.ownerReferences, func(ref metav1.OwnerReference) bool {
			return removable[coordinatesOf(ref)]
		})}
	case solid:
	case waitingForDependentsDeletion && len(g.dependents[o.uid]) > 0:
		if owners, changed := g.unblockOwnerReferences(o); changed {
			p.patch = &patch{ownerReferences: owners}
		} else {
			p.delete = metav1.DeletePropagationForeground
		}
	case slices.Contains(o.finalizers, metav1.FinalizerOrphanDependents):
		p.delete = metav1.DeletePropagationOrphan
	case slices.Contains(o.finalizers, metav1.FinalizerDeleteDependents):
		p.delete = metav1.DeletePropagationForeground
	default:
		p.delete = metav1.DeletePropagationBackground
	}
	return p
}

// ownerState returns the state of an owner; ok is false if the owner must be read live. The graph
// alone can prove only that an owner is present. That it is absent, because of which a reference is
// removed or an object deleted, must be proved by a live read, now or before: a UID that was
// deleted is never used again.
func (g *graph) ownerState(o *node, ref metav1.OwnerReference, found ownerStates) (v ownerState, ok bool) {
	deleted := g.tombstones[ref.UID]
	if deleted != nil && deleted.confirmedAbsent {
		return ownerAbsent, true
	}
	if v, ok = found[coordinatesOf(ref)]; ok {
		if v == ownerUnknown && deleted != nil {
			return ownerAbsent, true
		}
		return v, true
	}
	owner := g.uidToNode[ref.UID]
	if owner != nil && owner.isReferredToBy(ref, o.namespace) && !owner.isDeletingDependents() {
		return ownerPresent, true
	}
	return ownerUnknown, false
}

// unblockOwnerReferences returns the references of o without blockOwnerDeletion if a dependent of o
// waits for its own dependents. The two may be in a cycle, in which each would wait for the other.
func (g *graph) unblockOwnerReferences(o *node) (owners []metav1.OwnerReference, changed bool) {
	for _, d := range g.dependents[o.uid] {
		if !d.isDeletingDependents() {
			continue
		}
		owners = slices.Clone(o.ownerReferences)
		for i := range owners {
			changed = changed || blocksOwnerDeletion(owners[i])
			owners[i].BlockOwnerDeletion = nil
		}
		return owners, changed
	}
	return nil, false
}

// removeFinalizer returns the patch that removes a finalizer.
func removeFinalizer(o *node, finalizer string) *patch {
	return &patch{finalizers: without(o.finalizers, func(f string) bool { return f == finalizer })}
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
