package gc

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// plan is what is to be done about one object. At most one of lookup, patch, delete and the two
// lists after them is set; none means that the object is well.
type plan struct {
	object object

	// lookup are the owners of which it must be found out whether they exist.
	lookup []metav1.OwnerReference
	// patch replaces the owner references or the finalizers.
	patch *patch
	// orphaned: the patch lets go an owner whose known dependents have all been freed. Those that
	// are not known yet would be lost with it, so the server is to be searched for them first.
	orphaned bool
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

// verdict is what a look at the server said of an owner.
type verdict int

const (
	// unknown: nobody can say, because the kind is not served; the dependent stays.
	unknown verdict = iota
	absent
	present
	// waiting: it is there, waiting for its dependents to go.
	waiting
)

// plan says what is to be done about an object now. found has the verdicts on the owners that an
// earlier plan wanted to be looked up.
func (g *graph) plan(uid types.UID, found map[types.UID]verdict) plan {
	g.mu.Lock()
	defer g.mu.Unlock()
	o := g.objects[uid]
	switch {
	case o == nil:
		return plan{}
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
		p.patch, p.orphaned = dropFinalizer(o, metav1.FinalizerOrphanDependents), true
	}
	return p
}

// planForeground waits for the dependents that block the deletion, then gives up the finalizer.
func (g *graph) planForeground(o *object) plan {
	p := plan{object: *o}
	blocked := false
	for uid, d := range g.dependents[o.uid] {
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
		p.patch = dropFinalizer(o, metav1.FinalizerDeleteDependents)
	}
	return p
}

// planDependent deletes an object that has lost all its owners, or whose last owners wait for it.
func (g *graph) planDependent(o *object, found map[types.UID]verdict) plan {
	p := plan{object: *o}
	solid, waits := false, false
	lost := map[types.UID]bool{}
	for _, ref := range o.owners {
		v, ok := g.judge(o, ref, found)
		switch {
		case !ok:
			p.lookup = append(p.lookup, ref)
		case v == present || v == unknown:
			solid = true
		case v == waiting:
			waits = true
			lost[ref.UID] = true
		default:
			lost[ref.UID] = true
		}
	}
	switch {
	case len(p.lookup) > 0:
	case solid && len(lost) > 0:
		p.patch = &patch{owners: without(o.owners, func(ref metav1.OwnerReference) bool { return lost[ref.UID] })}
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

// judge says what is known of an owner; ok is false if the server has to be asked.
func (g *graph) judge(o *object, ref metav1.OwnerReference, found map[types.UID]verdict) (v verdict, ok bool) {
	if _, gone := g.gone[ref.UID]; gone {
		return absent, true
	}
	if owner := g.objects[ref.UID]; owner != nil && owner.answers(ref, o.namespace) {
		if owner.waitsForDependents() {
			return waiting, true
		}
		return present, true
	}
	v, ok = found[ref.UID]
	return v, ok
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
