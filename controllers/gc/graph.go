package gc

import (
	"maps"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// node is the state of an object, for updates of the graph and for requests. The graph keeps it as a vertex.
//
//upstream:pkg/controller/garbagecollector.node
type node struct {
	uid             types.UID
	kind            schema.GroupVersionKind
	namespace, name string
	resourceVersion string
	ownerReferences []metav1.OwnerReference
	finalizers      []string
	beingDeleted    bool
	// unverified is set if the object may have been deleted while its kind was not watched.
	unverified bool
}

// isDeletingDependents reports whether foreground deletion of the object is in progress.
func (n *node) isDeletingDependents() bool {
	return n.beingDeleted && slices.Contains(n.finalizers, metav1.FinalizerDeleteDependents)
}

// isOrphaningDependents reports whether orphan deletion of the object is in progress.
func (n *node) isOrphaningDependents() bool {
	return n.beingDeleted && slices.Contains(n.finalizers, metav1.FinalizerOrphanDependents)
}

// graph is the graph of the owner references of all objects, by UID. It does no I/O. Its methods apply a change and
// return the UIDs of the objects to reconcile because of it. The method nextAction returns the next step for one object.
//
// An owner may exist only in the references of its dependents. The caller has to find out whether the owner exists. The
// graph only has tombstones of deleted owners.
//
// The methods may be called from several goroutines at once.
type graph struct {
	mu       sync.Mutex
	vertices map[id]*vertex
	// most is the maximum length of vertices since the map was made. A Go map does not shrink.
	most int
	// dependents has the vertices that refer to an owner, whether or not that is in the graph.
	dependents map[id]*owned
	// tombstones has a tombstone of each deleted owner as long as an object refers to the owner.
	tombstones map[id]*tombstone
	places     map[place]*shared // the shared kinds and namespaces of the vertices
	// unverifiedCount is the number of unverified vertices.
	unverifiedCount int
	invalid         []invalidReference // until takeInvalid
}

// tombstone stands for an object after an informer has delivered its deletion.
type tombstone struct {
	lastKnown *vertex // nil if it was never in the graph
	// confirmedAbsent is set if a live read did not find it either.
	confirmedAbsent bool
	// leftBehind are the dependents that still referred to the owner when the owner was deleted, although the owner was to
	// orphan the dependents.
	leftBehind map[*vertex]struct{}
}

// newTombstone returns the tombstone of a deleted owner, which may be nil.
func newTombstone(v *vertex, o *owned) *tombstone {
	t := &tombstone{lastKnown: v}
	if v != nil && v.mustOrphan {
		t.leftBehind = map[*vertex]struct{}{}
		for d := range o.dependents.all() {
			t.leftBehind[d] = struct{}{}
		}
	}
	return t
}

func newGraph() *graph {
	return &graph{
		vertices:   map[id]*vertex{},
		dependents: map[id]*owned{},
		tombstones: map[id]*tombstone{},
		places:     map[place]*shared{},
	}
}

// update adds an object or replaces its state, and returns the UIDs of the objects to reconcile. It ignores a state
// that is older than the state in the graph. The graph does not retain n.
//
//upstream:pkg/controller/garbagecollector.GraphBuilder.processGraphChanges
func (g *graph) update(n *node) []types.UID {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.updateLocked(n)
}

// updateLocked is update with the lock held.
func (g *graph) updateLocked(n *node) []types.UID {
	key, _ := idOf(n.uid)
	v := g.vertices[key]
	isNew := v == nil
	if isNew {
		v = &vertex{id: key}
		g.vertices[key] = v
		g.most = max(g.most, len(g.vertices))
	} else if revision := parseRevision(n.resourceVersion); revision > 0 && revision < v.revision {
		return nil
	}
	old := *v
	g.set(v, n)
	v.mustOrphan = v.mustOrphan || v.isOrphaningDependents()
	delete(g.tombstones, key)

	g.addDependentToOwners(v)
	g.findInvalid(v, old.rest().owners)
	affected := orderedSet{}
	if isNew {
		g.findInvalidDependents(v)
		// The dependents may have been reconciled before the object was added, or refer to the UID of the object with
		// another name or namespace.
		affected.addDependents(g.dependents[key])
	} else {
		g.removeDependentFromOwners(v, old.rest().owners, v.rest().owners)
		if changesOwnership(&old, v) {
			g.addWaitingOwners(&affected, &old)
		}
	}
	if isNew || changesOwnership(&old, v) {
		if v.isDeletingDependents() && (isNew || !old.isDeletingDependents()) {
			affected.addDependents(g.dependents[key]) // they are deleted while their owner waits
		}
		// As in Kubernetes, the removal of a reference is no reason to look at the owners: it deletes nothing.
		if isNew && len(v.rest().owners) > 0 || addsReference(&old, v) || v.isDeletingDependents() || v.mustOrphan {
			affected.add(n.uid)
		}
		g.addWaitingOwners(&affected, v)
	}
	return affected.list
}

// remove removes a deleted object and returns the UIDs of the objects to be reconciled.
//
//upstream:pkg/controller/garbagecollector.GraphBuilder.processGraphChanges
func (g *graph) remove(uid types.UID) []types.UID {
	g.mu.Lock()
	defer g.mu.Unlock()
	affected := orderedSet{}
	key, _ := idOf(uid)
	v := g.vertices[key]
	if o := g.dependents[key]; o != nil {
		if g.tombstones[key] == nil {
			g.tombstones[key] = newTombstone(v, o)
		}
		affected.addDependents(o)
	}
	if v != nil {
		delete(g.vertices, key)
		g.shrink()
		g.setUnverified(v, false)
		g.leave(v)
		g.removeDependentFromOwners(v, v.rest().owners, nil)
		g.addWaitingOwners(&affected, v)
	}
	return affected.list
}

// minShrunk is the number of vertices up to which the map keeps its size.
const minShrunk = 1024

// shrink makes a new map when less than an eighth of the vertices is left.
func (g *graph) shrink() {
	if g.most <= minShrunk || len(g.vertices) >= g.most/8 {
		return
	}
	left := make(map[id]*vertex, len(g.vertices))
	maps.Copy(left, g.vertices)
	g.vertices, g.most = left, len(left)
}

// updateExisting is update for a node that is in the graph. It ignores other nodes, since an informer may have delivered
// their deletion since they were read.
func (g *graph) updateExisting(n *node) []types.UID {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.find(n.uid) == nil {
		return nil
	}
	return g.updateLocked(n)
}

// confirmAbsent records that a live read did not find the owner that ref, in an object in that
// namespace, refers to.
func (g *graph) confirmAbsent(ref metav1.OwnerReference, namespace string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if t := g.tombstone(ref.UID); t != nil && t.lastKnown != nil && t.lastKnown.isReferredToBy(&ref, namespace) {
		t.confirmedAbsent = true
	}
}

// noteOrphaned records that a write has removed the references of an object to deleted owners, or that no write can. If a reference is
// still there, the object is deleted like any other without owners.
func (g *graph) noteOrphaned(uid types.UID) {
	g.mu.Lock()
	defer g.mu.Unlock()
	v := g.find(uid)
	if v == nil {
		return
	}
	for _, ref := range v.rest().owners {
		if t := g.tombstone(ref.UID); t != nil {
			delete(t.leftBehind, v)
		}
	}
}

// has reports whether an object is in the graph.
func (g *graph) has(uid types.UID) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.find(uid) != nil
}

// find returns the vertex of a UID, or nil.
func (g *graph) find(uid types.UID) *vertex {
	key, _ := idOf(uid)
	return g.vertices[key]
}

// tombstone returns the tombstone of a UID, or nil.
func (g *graph) tombstone(uid types.UID) *tombstone {
	key, _ := idOf(uid)
	return g.tombstones[key]
}

// markUnverified marks the objects of one kind, in any version, as unverified until their next
// update.
func (g *graph) markUnverified(kind schema.GroupKind) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for at := range g.places {
		if at.kind.GroupKind() != kind {
			continue
		}
		for _, v := range g.vertices {
			if v.at.kind.GroupKind() == kind {
				g.setUnverified(v, true)
			}
		}
		return
	}
}

// setUnverified marks a vertex as unverified, or as verified, and keeps the count.
func (g *graph) setUnverified(v *vertex, unverified bool) {
	if v.unverified == unverified {
		return
	}
	if v.unverified = unverified; unverified {
		g.unverifiedCount++
	} else {
		g.unverifiedCount--
	}
}

// unverified returns the objects of one kind that are unverified.
func (g *graph) unverified(kind schema.GroupKind) []types.UID {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.unverifiedCount == 0 {
		return nil
	}
	var uids []types.UID
	for _, v := range g.vertices {
		if v.unverified && v.at.kind.GroupKind() == kind {
			uids = append(uids, v.uid())
		}
	}
	return uids
}

// addDependentToOwners adds v to the dependents of its owners.
//
//upstream:pkg/controller/garbagecollector.GraphBuilder.addDependentToOwners
func (g *graph) addDependentToOwners(v *vertex) {
	for _, ref := range v.rest().owners {
		key, _ := idOf(ref.UID)
		g.dependents[key].dependents.add(v)
	}
}

// invalidReference is a reference of a dependent to an object in another namespace.
type invalidReference struct {
	dependent node
	owner     metav1.OwnerReference
}

// takeInvalid returns the references that have been found since the last call.
func (g *graph) takeInvalid() []invalidReference {
	g.mu.Lock()
	defer g.mu.Unlock()
	found := g.invalid
	g.invalid = nil
	return found
}

// findInvalid looks at the first new reference of v that does not match the object with the UID. It records the reference if
// that object is in another namespace.
//
//upstream:pkg/controller/garbagecollector.GraphBuilder.addDependentToOwners
func (g *graph) findInvalid(v *vertex, old []*metav1.OwnerReference) {
	for _, ref := range v.rest().owners {
		owner := g.find(ref.UID)
		if owner == nil || owner.isReferredToBy(ref, v.at.namespace) || slices.ContainsFunc(old, func(o *metav1.OwnerReference) bool { return o.UID == ref.UID }) {
			continue
		}
		if !owner.canOwnIn(v.at.namespace) {
			g.invalid = append(g.invalid, invalidReference{v.node(), *ref})
		}
		return
	}
}

// findInvalidDependents finds the references to v from other namespaces.
//
//upstream:pkg/controller/garbagecollector.GraphBuilder.processGraphChanges
func (g *graph) findInvalidDependents(v *vertex) {
	for d := range g.dependentsOf(v) {
		if d == v || v.canOwnIn(d.at.namespace) {
			continue
		}
		for _, ref := range d.rest().owners {
			if ref.UID == v.uid() {
				g.invalid = append(g.invalid, invalidReference{d.node(), *ref})
				break
			}
		}
	}
}

// removeDependentFromOwners removes v from the dependents of owners, except of the owners in keep.
//
//upstream:pkg/controller/garbagecollector.GraphBuilder.removeDependentFromOwners
func (g *graph) removeDependentFromOwners(v *vertex, owners, keep []*metav1.OwnerReference) {
	for _, ref := range owners {
		if slices.ContainsFunc(keep, func(k *metav1.OwnerReference) bool { return k == ref || k.UID == ref.UID }) {
			continue
		}
		key, _ := idOf(ref.UID)
		o := g.dependents[key]
		if o == nil {
			continue // v refers to it twice
		}
		if o.dependents.remove(v); o.dependents.len() == 0 {
			delete(g.dependents, key)
			delete(g.tombstones, key)
		}
	}
}

// addWaitingOwners adds the owners of v that wait for their dependents before they are deleted.
func (g *graph) addWaitingOwners(s *orderedSet, v *vertex) {
	for _, ref := range v.rest().owners {
		if owner := g.find(ref.UID); owner != nil && (owner.isDeletingDependents() || owner.isOrphaningDependents()) {
			s.add(ref.UID)
		}
	}
}

// changesOwnership reports whether the change from old to v can change the action of any object.
//
//upstream:pkg/controller/garbagecollector.referencesDiffs
func changesOwnership(old, v *vertex) bool {
	was, is := old.rest(), v.rest()
	return old.beingDeleted != v.beingDeleted || !slices.Equal(was.finalizers, is.finalizers) ||
		!slices.EqualFunc(was.owners, is.owners, func(a, b *metav1.OwnerReference) bool { return a == b || sameReference(*a, *b) })
}

// addsReference reports whether the change from old to v adds or changes a reference.
//
//upstream:pkg/controller/garbagecollector.referencesDiffs
func addsReference(old, v *vertex) bool {
	return slices.ContainsFunc(v.rest().owners, func(ref *metav1.OwnerReference) bool {
		return !slices.ContainsFunc(old.rest().owners, func(was *metav1.OwnerReference) bool { return was == ref || sameReference(*was, *ref) })
	})
}

// sameReference reports whether two references are equal for garbage collection.
func sameReference(a, b metav1.OwnerReference) bool {
	return a.UID == b.UID && a.Name == b.Name && a.Kind == b.Kind && a.APIVersion == b.APIVersion &&
		blocksOwnerDeletion(a) == blocksOwnerDeletion(b)
}

func blocksOwnerDeletion(ref metav1.OwnerReference) bool {
	return ref.BlockOwnerDeletion != nil && *ref.BlockOwnerDeletion
}

// orderedSet is a set that keeps the order in which its members were added. The zero value is empty.
type orderedSet struct {
	has  map[types.UID]bool
	list []types.UID
}

func (s *orderedSet) add(uid types.UID) {
	if s.has[uid] {
		return
	}
	if s.has == nil {
		s.has = map[types.UID]bool{}
	}
	s.has[uid] = true
	s.list = append(s.list, uid)
}

// addDependents adds the dependents of an owner, which may be nil.
func (s *orderedSet) addDependents(o *owned) {
	if o == nil {
		return
	}
	for v := range o.dependents.all() {
		s.add(v.uid())
	}
}
