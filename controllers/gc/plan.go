package gc

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// plan is what is to be done about one object. At most one of lookup, patch, delete and the two
// lists after them is set; none means that there is nothing to do.
type plan struct {
	object object

	// verify: the object must first be read live.
	verify bool
	// lookup are the owners that must be read live.
	lookup []metav1.OwnerReference
	// invalid are the references to owners that would be in another namespace.
	invalid []metav1.OwnerReference
	// unresolved: it cannot be determined whether an owner exists, so nothing is to be done.
	unresolved bool
	// patch replaces the owner references or the finalizers.
	patch *patch
	// final: the patch removes a finalizer of an owner because the graph has no dependent to wait for.
	// Dependents that are not in the graph must be searched for first.
	final bool
	// delete removes the object, with this propagation.
	delete metav1.DeletionPropagation
	// release are the dependents that are to lose their reference to the object, each with its patch.
	release []release
	// wake are dependents to be enqueued, because they must be deleted before the object.
	wake []types.UID
}

// patch is the new value of the one list that is not nil.
type patch struct {
	owners     []metav1.OwnerReference
	finalizers []string
}

type release struct {
	dependent object
	patch     patch
}

// verdict is the result of a live read of an owner.
type verdict int

const (
	// unserved: the server does not serve the kind.
	unserved verdict = iota
	// unresolvable: the owner is namespaced and the dependent is cluster-scoped.
	unresolvable
	absent
	present
	// waiting: it exists, and its foreground deletion waits for its dependents.
	waiting
)

// verdicts are the verdicts on the owners of an object. Their key is all that a reference says of its
// owner, as a valid and an invalid one may have the same UID.
type verdicts map[coordinates]verdict

type coordinates struct {
	apiVersion, kind, name string
	uid                    types.UID
}

func coordinatesOf(ref metav1.OwnerReference) coordinates {
	return coordinates{ref.APIVersion, ref.Kind, ref.Name, ref.UID}
}

// plan returns what is to be done about an object now. found has the verdicts on the owners in the lookup
// of an earlier plan.
func (g *graph) plan(uid types.UID, found verdicts) plan {
	g.mu.Lock()
	defer g.mu.Unlock()
	o := g.objects[uid]
	switch {
	case o == nil:
		return plan{}
	case o.doubtful:
		return plan{object: *o, verify: true}
	case o.orphansDependents():
		return g.planOrphaning(o)
	case o.waitsForDependents():
		return g.planForeground(o)
	case o.deleting || len(o.owners) == 0:
		return plan{}
	default:
		return g.planDependent(o, found)
	}
}

// planOrphaning removes the references of all dependents, then the finalizer.
func (g *graph) planOrphaning(o *object) plan {
	p := plan{object: *o}
	for _, d := range g.dependents[o.uid] {
		rest := without(d.owners, func(ref metav1.OwnerReference) bool { return ref.UID == o.uid })
		p.release = append(p.release, release{*d, patch{owners: rest}})
	}
	if len(p.release) == 0 {
		p.patch, p.final = dropFinalizer(o, metav1.FinalizerOrphanDependents), true
	}
	return p
}

// planForeground waits for the dependents that block the deletion, then removes the finalizer.
func (g *graph) planForeground(o *object) plan {
	p := plan{object: *o}
	blocked := false
	for uid, d := range g.dependents[o.uid] {
		if uid == o.uid {
			continue // it need not go before itself
		}
		if !slices.ContainsFunc(d.owners, func(ref metav1.OwnerReference) bool {
			return ref.UID == o.uid && blocks(ref) && o.answers(ref, d.namespace)
		}) {
			continue
		}
		blocked = true
		if !d.deleting {
			p.wake = append(p.wake, uid)
		}
	}
	if !blocked {
		p.patch, p.final = dropFinalizer(o, metav1.FinalizerDeleteDependents), true
	}
	return p
}

// planDependent deletes an object whose owners are all absent, or wait for its deletion.
func (g *graph) planDependent(o *object, found verdicts) plan {
	p := plan{object: *o}
	solid, waits := false, false
	lost := map[coordinates]bool{}
	for _, ref := range o.owners {
		v, ok := g.judge(o, ref, found)
		switch {
		case !ok:
			p.lookup = append(p.lookup, ref)
			continue
		case v == unserved:
			p.unresolved = true
		case v == unresolvable:
			p.unresolved = true
			p.invalid = append(p.invalid, ref)
		case v == present:
			solid = true
		default:
			waits = waits || v == waiting
			lost[coordinatesOf(ref)] = true
		}
		if owner := g.objects[ref.UID]; v == absent && owner != nil && !owner.reachableFrom(o.namespace) {
			p.invalid = append(p.invalid, ref)
		}
	}
	switch {
	case len(p.lookup) > 0, p.unresolved:
	case solid && len(lost) > 0:
		p.patch = &patch{owners: without(o.owners, func(ref metav1.OwnerReference) bool { return lost[coordinatesOf(ref)] })}
	case solid:
	case waits && len(g.dependents[o.uid]) > 0:
		if owners, changed := g.unblocked(o); changed {
			p.patch = &patch{owners: owners}
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

// judge returns the verdict on an owner; ok is false if the owner must be read live. From the graph alone
// it follows only that an owner is present. That it is absent, for which a reference is removed or an
// object deleted, follows from a live read, now or before: a UID that was deleted never exists again.
func (g *graph) judge(o *object, ref metav1.OwnerReference, found verdicts) (v verdict, ok bool) {
	buried := g.deleted[ref.UID]
	if buried != nil && buried.confirmed {
		return absent, true
	}
	if v, ok = found[coordinatesOf(ref)]; ok {
		if v == unserved && buried != nil {
			return absent, true
		}
		return v, true
	}
	owner := g.objects[ref.UID]
	if owner != nil && owner.answers(ref, o.namespace) && !owner.waitsForDependents() {
		return present, true
	}
	return unserved, false
}

// unblocked breaks a cycle: if a dependent of o is itself waiting for its dependents, the two may wait
// for each other, so the references of o no longer block their owners.
func (g *graph) unblocked(o *object) (owners []metav1.OwnerReference, changed bool) {
	for _, d := range g.dependents[o.uid] {
		if !d.waitsForDependents() {
			continue
		}
		owners = slices.Clone(o.owners)
		for i := range owners {
			changed = changed || blocks(owners[i])
			owners[i].BlockOwnerDeletion = nil
		}
		return owners, changed
	}
	return nil, false
}

func dropFinalizer(o *object, finalizer string) *patch {
	return &patch{finalizers: without(o.finalizers, func(f string) bool { return f == finalizer })}
}

// without returns a new slice, never nil, of the elements that drop does not name.
func without[T any](from []T, drop func(T) bool) []T {
	kept := make([]T, 0, len(from))
	for _, x := range from {
		if !drop(x) {
			kept = append(kept, x)
		}
	}
	return kept
}
