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

	// verify: it must first be found out whether the object still exists.
	verify bool
	// lookup are the owners of which the server must be asked whether they exist.
	lookup []metav1.OwnerReference
	// invalid are the references that cannot be to what they name, because that is in another namespace.
	invalid []metav1.OwnerReference
	// unresolved: there is an owner of which nobody can say whether it exists, so nothing is to be done.
	unresolved bool
	// patch replaces the owner references or the finalizers.
	patch *patch
	// final: the patch lets an owner go because none of the dependents that the graph knows of is to be
	// waited for. Those it does not know of are to be searched for first.
	final bool
	// delete removes the object, with this propagation.
	delete metav1.DeletionPropagation
	// release are the dependents that are to lose their reference to the object, each with its patch.
	release []release
	// wake are dependents that have to go before the object can.
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

// verdict is what the server said of an owner.
type verdict int

const (
	// unserved: the server cannot say, because it does not serve the kind.
	unserved verdict = iota
	// unresolvable: the owner would be in a namespace, and the dependent is in none.
	unresolvable
	absent
	present
	// waiting: it is there, waiting for its dependents to go.
	waiting
)

// verdicts are those on the owners of an object. A reference is known by all that it says of its owner:
// there may be a right and a wrong one with the same UID.
type verdicts map[coordinates]verdict

type coordinates struct {
	apiVersion, kind, name string
	uid                    types.UID
}

func coordinatesOf(ref metav1.OwnerReference) coordinates {
	return coordinates{ref.APIVersion, ref.Kind, ref.Name, ref.UID}
}

// plan says what is to be done about an object now. found has the verdicts on the owners that an
// earlier plan wanted to be looked up.
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

// planOrphaning lets all dependents go, then gives up the finalizer.
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

// planForeground waits for the dependents that block the deletion, then gives up the finalizer.
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

// planDependent deletes an object that has lost all its owners, or whose last owners wait for it.
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

// judge says what is known of an owner; ok is false if the server has to be asked. By itself the graph
// says only that there is nothing to do: whatever costs an object its reference or its life is the
// server's word, either the present one or that the owner with this UID was deleted, which is for ever.
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

// unblocked breaks a circle: if a dependent of o is itself waiting for its dependents, o and it may
// wait for each other, so o no longer blocks anyone.
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
