package gc

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// node is an object in the graph.
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

// isOrphaningDependents reports whether the object is deleted when its dependents are orphaned.
func (n *node) isOrphaningDependents() bool {
	return n.beingDeleted && slices.Contains(n.finalizers, metav1.FinalizerOrphanDependents)
}

// isReferredToBy reports whether ref, in an object in that namespace, refers to n.
//
//upstream:pkg/controller/garbagecollector.ownerReferenceMatchesCoordinates
func (n *node) isReferredToBy(ref metav1.OwnerReference, namespace string) bool {
	gv, err := schema.ParseGroupVersion(ref.APIVersion)
	return err == nil && n.uid == ref.UID && n.name == ref.Name &&
		n.kind.Group == gv.Group && n.kind.Kind == ref.Kind &&
		n.canOwnIn(namespace)
}

// canOwnIn reports whether n can own objects in a namespace, or cluster-scoped ones if that is "".
func (n *node) canOwnIn(namespace string) bool {
	return n.namespace == "" || n.namespace == namespace
}

// graph is the graph of the owner references of all objects, by UID. It does no I/O. Its methods apply a change and
// return the UIDs of the objects to reconcile because of it. The method nextAction returns the next step for one object.
//
// An owner may exist only in the references of its dependents. The caller has to find out whether the owner exists. The
// graph only has tombstones of deleted owners.
//
// The methods may be called from several goroutines at once.
type graph struct {
	mu        sync.Mutex
	uidToNode map[types.UID]*node
	// most is the maximum length of uidToNode since it was made. Maps do not shrink.
	most int
	// dependents has the nodes that refer to an owner, whether or not that is in the graph.
	dependents map[types.UID]map[types.UID]*node
	// tombstones has a tombstone of each deleted owner as long as an object refers to the owner.
	tombstones map[types.UID]*tombstone
}

// tombstone stands for an object after an informer has delivered its deletion.
type tombstone struct {
	lastKnown *node // nil if it was never in the graph
	// confirmedAbsent is set if a live read did not find it either.
	confirmedAbsent bool
}

func newGraph() *graph {
	return &graph{
		uidToNode:  map[types.UID]*node{},
		dependents: map[types.UID]map[types.UID]*node{},
		tombstones: map[types.UID]*tombstone{},
	}
}

// update adds an object or replaces its state, and returns the UIDs of the objects to reconcile. It ignores a state
// that is older than the state in the graph. The graph retains n.
//
//upstream:pkg/controller/garbagecollector.GraphBuilder.processGraphChanges
func (g *graph) update(n *node) []types.UID {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.updateLocked(n)
}

// updateLocked is update with the lock held.
func (g *graph) updateLocked(n *node) []types.UID {
	old := g.uidToNode[n.uid]
	if old != nil && older(n.resourceVersion, old.resourceVersion) {
		return nil
	}
	g.uidToNode[n.uid] = n
	g.most = max(g.most, len(g.uidToNode))
	delete(g.tombstones, n.uid)

	affected := newOrderedSet()
	if old == nil {
		g.addDependentToOwners(n)
		// They may have been reconciled before it was added, or refer to its UID with another name
		// or namespace.
		affected.addAll(slices.Collect(maps.Keys(g.dependents[n.uid])))
	} else {
		g.addDependentToOwners(n)
		g.removeDependentFromOwners(old, n.ownerReferences)
		if changesOwnership(old, n) {
			affected.addAll(g.waitingOwners(old))
		}
	}
	if old == nil || changesOwnership(old, n) {
		if len(n.ownerReferences) > 0 || n.isDeletingDependents() || n.isOrphaningDependents() {
			affected.add(n.uid)
		}
		affected.addAll(g.waitingOwners(n))
		if n.isDeletingDependents() && (old == nil || !old.isDeletingDependents()) {
			affected.addAll(slices.Collect(maps.Keys(g.dependents[n.uid])))
		}
	}
	return affected.list
}

// remove removes a deleted object and returns the UIDs of the objects to be reconciled.
//
//upstream:pkg/controller/garbagecollector.GraphBuilder.processGraphChanges
func (g *graph) remove(uid types.UID) []types.UID {
	g.mu.Lock()
	defer g.mu.Unlock()
	affected := newOrderedSet()
	n := g.uidToNode[uid]
	if len(g.dependents[uid]) > 0 {
		if g.tombstones[uid] == nil {
			g.tombstones[uid] = &tombstone{lastKnown: n}
		}
		affected.addAll(slices.Collect(maps.Keys(g.dependents[uid])))
	}
	if n != nil {
		delete(g.uidToNode, uid)
		g.shrink()
		g.removeDependentFromOwners(n, nil)
		affected.addAll(g.waitingOwners(n))
	}
	return affected.list
}

// minShrunk is the number of nodes up to which the map keeps its size.
const minShrunk = 1024

// shrink makes a new map when less than an eighth of the nodes is left.
func (g *graph) shrink() {
	if g.most <= minShrunk || len(g.uidToNode) >= g.most/8 {
		return
	}
	nodes := make(map[types.UID]*node, len(g.uidToNode))
	maps.Copy(nodes, g.uidToNode)
	g.uidToNode, g.most = nodes, len(nodes)
}

// updateExisting is update for a node that is in the graph. It ignores other nodes, since an informer may have delivered
// their deletion since they were read.
func (g *graph) updateExisting(n *node) []types.UID {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.uidToNode[n.uid] == nil {
		return nil
	}
	return g.updateLocked(n)
}

// confirmAbsent records that a live read did not find the owner that ref, in an object in that
// namespace, refers to.
func (g *graph) confirmAbsent(ref metav1.OwnerReference, namespace string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if t := g.tombstones[ref.UID]; t != nil && t.lastKnown != nil && t.lastKnown.isReferredToBy(ref, namespace) {
		t.confirmedAbsent = true
	}
}

// has reports whether an object is in the graph.
func (g *graph) has(uid types.UID) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.uidToNode[uid] != nil
}

// markUnverified marks the objects of one kind, in any version, as unverified until their next
// update.
func (g *graph) markUnverified(kind schema.GroupKind) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, n := range g.uidToNode {
		if n.kind.GroupKind() == kind {
			n.unverified = true
		}
	}
}

// unverified returns the objects of one kind that are unverified.
func (g *graph) unverified(kind schema.GroupKind) []types.UID {
	g.mu.Lock()
	defer g.mu.Unlock()
	var uids []types.UID
	for uid, n := range g.uidToNode {
		if n.unverified && n.kind.GroupKind() == kind {
			uids = append(uids, uid)
		}
	}
	return uids
}

// addDependentToOwners adds n to the dependents of its owners.
//
//upstream:pkg/controller/garbagecollector.GraphBuilder.addDependentToOwners
func (g *graph) addDependentToOwners(n *node) {
	for _, ref := range n.ownerReferences {
		if g.dependents[ref.UID] == nil {
			g.dependents[ref.UID] = map[types.UID]*node{}
		}
		g.dependents[ref.UID][n.uid] = n
	}
}

// removeDependentFromOwners removes n from the dependents of its owners, except of those in keep.
//
//upstream:pkg/controller/garbagecollector.GraphBuilder.removeDependentFromOwners
func (g *graph) removeDependentFromOwners(n *node, keep []metav1.OwnerReference) {
	for _, ref := range n.ownerReferences {
		if slices.ContainsFunc(keep, func(k metav1.OwnerReference) bool { return k.UID == ref.UID }) {
			continue
		}
		delete(g.dependents[ref.UID], n.uid)
		if len(g.dependents[ref.UID]) == 0 {
			delete(g.dependents, ref.UID)
			delete(g.tombstones, ref.UID)
		}
	}
}

// waitingOwners returns the owners of n that wait for their dependents before they are deleted.
func (g *graph) waitingOwners(n *node) []types.UID {
	var uids []types.UID
	for _, ref := range n.ownerReferences {
		if owner := g.uidToNode[ref.UID]; owner != nil && (owner.isDeletingDependents() || owner.isOrphaningDependents()) {
			uids = append(uids, ref.UID)
		}
	}
	return uids
}

// changesOwnership reports whether the change from old to n can change the action of any object.
//
//upstream:pkg/controller/garbagecollector.referencesDiffs
func changesOwnership(old, n *node) bool {
	return old.beingDeleted != n.beingDeleted || !slices.Equal(old.finalizers, n.finalizers) ||
		!slices.EqualFunc(old.ownerReferences, n.ownerReferences, sameReference)
}

// sameReference reports whether two references are equal for garbage collection.
func sameReference(a, b metav1.OwnerReference) bool {
	return a.UID == b.UID && a.Name == b.Name && a.Kind == b.Kind && a.APIVersion == b.APIVersion &&
		blocksOwnerDeletion(a) == blocksOwnerDeletion(b)
}

func blocksOwnerDeletion(ref metav1.OwnerReference) bool {
	return ref.BlockOwnerDeletion != nil && *ref.BlockOwnerDeletion
}

// older reports whether resource version a is older than b. One that is not a number is never
// older.
func older(a, b string) bool {
	x, errX := strconv.ParseUint(a, 10, 64)
	y, errY := strconv.ParseUint(b, 10, 64)
	return errX == nil && errY == nil && cmp.Less(x, y)
}

// orderedSet is a set that keeps the order in which its members were added.
type orderedSet struct {
	has  map[types.UID]bool
	list []types.UID
}

func newOrderedSet() *orderedSet { return &orderedSet{has: map[types.UID]bool{}} }

func (s *orderedSet) add(uid types.UID) {
	if !s.has[uid] {
		s.has[uid] = true
		s.list = append(s.list, uid)
	}
}

func (s *orderedSet) addAll(uids []types.UID) {
	for _, uid := range uids {
		s.add(uid)
	}
}
