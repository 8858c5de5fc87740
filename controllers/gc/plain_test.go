package gc

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// plainGraph is the model of a graph: maps of whole nodes. It is not for concurrent use.
type plainGraph struct {
	uidToNode  map[types.UID]*node
	dependents map[types.UID]map[types.UID]*node
	tombstones map[types.UID]*plainTombstone
	orphaning  map[types.UID]bool
}

type plainTombstone struct {
	lastKnown       *node
	confirmedAbsent bool
	leftBehind      map[types.UID]bool
}

func newPlainGraph() *plainGraph {
	return &plainGraph{map[types.UID]*node{}, map[types.UID]map[types.UID]*node{}, map[types.UID]*plainTombstone{}, map[types.UID]bool{}}
}

func (n *node) plainlyReferredToBy(ref metav1.OwnerReference, namespace string) bool {
	gv, err := schema.ParseGroupVersion(ref.APIVersion)
	return err == nil && n.uid == ref.UID && n.name == ref.Name && n.kind.Group == gv.Group && n.kind.Kind == ref.Kind && n.plainlyOwnsIn(namespace)
}

func (n *node) plainlyOwnsIn(namespace string) bool {
	return n.namespace == "" || n.namespace == namespace
}

func plainlyOlder(a, b string) bool {
	x, errX := strconv.ParseUint(a, 10, 64)
	y, errY := strconv.ParseUint(b, 10, 64)
	return errX == nil && errY == nil && x < y
}

func (g *plainGraph) update(n *node) []types.UID {
	old := g.uidToNode[n.uid]
	if old != nil && plainlyOlder(n.resourceVersion, old.resourceVersion) {
		return nil
	}
	g.uidToNode[n.uid] = n
	g.orphaning[n.uid] = g.orphaning[n.uid] || n.isOrphaningDependents()
	delete(g.tombstones, n.uid)

	g.addDependentToOwners(n)
	affected := &plainSet{}
	if old == nil {
		// They may have been reconciled before it was added, or refer to its UID with another name
		// or namespace.
		affected.addAll(slices.Collect(maps.Keys(g.dependents[n.uid])))
	} else {
		g.removeDependentFromOwners(old, n.ownerReferences)
		if plainlyChanges(old, n) {
			affected.addAll(g.waitingOwners(old))
		}
	}
	if old == nil || plainlyChanges(old, n) {
		if n.isDeletingDependents() && (old == nil || !old.isDeletingDependents()) {
			affected.addAll(slices.Collect(maps.Keys(g.dependents[n.uid])))
		}
		isAdded := func(ref metav1.OwnerReference) bool {
			return old == nil || !slices.ContainsFunc(old.ownerReferences, func(was metav1.OwnerReference) bool { return sameReference(was, ref) })
		}
		if slices.ContainsFunc(n.ownerReferences, isAdded) || n.isDeletingDependents() || g.orphaning[n.uid] {
			affected.add(n.uid)
		}
		affected.addAll(g.waitingOwners(n))
	}
	return affected.list
}

func (g *plainGraph) remove(uid types.UID) []types.UID {
	affected := &plainSet{}
	n := g.uidToNode[uid]
	if len(g.dependents[uid]) > 0 {
		if g.tombstones[uid] == nil {
			t := &plainTombstone{lastKnown: n, leftBehind: map[types.UID]bool{}}
			for dependent := range g.dependents[uid] {
				t.leftBehind[dependent] = g.orphaning[uid]
			}
			g.tombstones[uid] = t
		}
		affected.addAll(slices.Collect(maps.Keys(g.dependents[uid])))
	}
	if n != nil {
		delete(g.uidToNode, uid)
		delete(g.orphaning, uid)
		for _, t := range g.tombstones {
			delete(t.leftBehind, uid)
		}
		g.removeDependentFromOwners(n, nil)
		affected.addAll(g.waitingOwners(n))
	}
	return affected.list
}

func (g *plainGraph) confirmAbsent(ref metav1.OwnerReference, namespace string) {
	if t := g.tombstones[ref.UID]; t != nil && t.lastKnown != nil && t.lastKnown.plainlyReferredToBy(ref, namespace) {
		t.confirmedAbsent = true
	}
}

func (g *plainGraph) markUnverified(kind schema.GroupKind) {
	for _, n := range g.uidToNode {
		if n.kind.GroupKind() == kind {
			n.unverified = true
		}
	}
}

func (g *plainGraph) unverified(kind schema.GroupKind) []types.UID {
	var uids []types.UID
	for uid, n := range g.uidToNode {
		if n.unverified && n.kind.GroupKind() == kind {
			uids = append(uids, uid)
		}
	}
	return uids
}

func (g *plainGraph) addDependentToOwners(n *node) {
	for _, ref := range n.ownerReferences {
		if g.dependents[ref.UID] == nil {
			g.dependents[ref.UID] = map[types.UID]*node{}
		}
		g.dependents[ref.UID][n.uid] = n
	}
}

func (g *plainGraph) removeDependentFromOwners(n *node, keep []metav1.OwnerReference) {
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

func (g *plainGraph) waitingOwners(n *node) []types.UID {
	var uids []types.UID
	for _, ref := range n.ownerReferences {
		if owner := g.uidToNode[ref.UID]; owner != nil && (owner.isDeletingDependents() || owner.isOrphaningDependents()) {
			uids = append(uids, ref.UID)
		}
	}
	return uids
}

func plainlyChanges(old, n *node) bool {
	return old.beingDeleted != n.beingDeleted || !slices.Equal(old.finalizers, n.finalizers) ||
		!slices.EqualFunc(old.ownerReferences, n.ownerReferences, sameReference)
}

func (g *plainGraph) nextAction(uid types.UID, found ownerStates) action {
	n := g.uidToNode[uid]
	if n == nil {
		return action{}
	}
	if len(g.dependents[uid]) == 0 {
		delete(g.orphaning, uid)
	}
	isLeftBehind := func(ref metav1.OwnerReference) bool {
		return g.tombstones[ref.UID] != nil && g.tombstones[ref.UID].leftBehind[uid]
	}
	switch {
	case n.unverified:
		return action{node: *n, verify: true}
	case slices.ContainsFunc(n.ownerReferences, isLeftBehind):
		return action{node: *n, orphans: []orphan{{*n, patch{ownerReferences: without(n.ownerReferences, isLeftBehind)}}}}
	case g.orphaning[uid], n.isOrphaningDependents():
		return g.orphanDependents(n)
	case n.isDeletingDependents():
		return g.processDeletingDependents(n)
	case n.beingDeleted || len(n.ownerReferences) == 0:
		return action{}
	default:
		return g.attemptToDelete(n, found)
	}
}

func (g *plainGraph) orphanDependents(n *node) action {
	a := action{node: *n}
	for _, d := range g.dependents[n.uid] {
		rest := without(d.ownerReferences, func(ref metav1.OwnerReference) bool { return ref.UID == n.uid })
		a.orphans = append(a.orphans, orphan{*d, patch{ownerReferences: rest}})
	}
	if len(a.orphans) == 0 {
		a.patch, a.removesFinalizer = removeFinalizer(n, metav1.FinalizerOrphanDependents), true
	}
	return a
}

func (g *plainGraph) noteOrphaned(uid types.UID) {
	for _, t := range g.tombstones {
		delete(t.leftBehind, uid)
	}
}

func (g *plainGraph) processDeletingDependents(n *node) action {
	a := action{node: *n}
	blocked := false
	for uid, d := range g.dependents[n.uid] {
		if !slices.ContainsFunc(d.ownerReferences, func(ref metav1.OwnerReference) bool {
			return ref.UID == n.uid && blocksOwnerDeletion(ref)
		}) {
			continue
		}
		blocked = true
		if !d.beingDeleted {
			a.enqueue = append(a.enqueue, uid)
		}
	}
	if !blocked {
		a.patch, a.removesFinalizer = removeFinalizer(n, metav1.FinalizerDeleteDependents), true
	}
	return a
}

func (g *plainGraph) attemptToDelete(n *node, found ownerStates) action {
	a := action{node: *n}
	solid, waitingForDependentsDeletion := false, false
	removable := map[types.UID]bool{}
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
	case waitingForDependentsDeletion && len(g.dependents[n.uid]) > 0:
		if owners, changed := g.unblockOwnerReferences(n); changed {
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

func (g *plainGraph) ownerState(n *node, ref metav1.OwnerReference, found ownerStates) (state ownerState, ok bool) {
	deleted := g.tombstones[ref.UID]
	wasIt := deleted != nil && deleted.lastKnown != nil && deleted.lastKnown.plainlyReferredToBy(ref, n.namespace)
	if wasIt && deleted.confirmedAbsent {
		return ownerAbsent, true
	}
	if state, ok = found[coordinatesOf(ref)]; ok {
		if state == ownerUnknown && wasIt {
			return ownerAbsent, true
		}
		return state, true
	}
	owner := g.uidToNode[ref.UID]
	if owner != nil && owner.plainlyReferredToBy(ref, n.namespace) && !owner.isDeletingDependents() {
		return ownerPresent, true
	}
	return ownerUnknown, false
}

func (g *plainGraph) unblockOwnerReferences(n *node) (owners []metav1.OwnerReference, changed bool) {
	for _, d := range g.dependents[n.uid] {
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

type plainSet struct{ list []types.UID }

func (s *plainSet) add(uid types.UID) {
	if !slices.Contains(s.list, uid) {
		s.list = append(s.list, uid)
	}
}

func (s *plainSet) addAll(uids []types.UID) {
	for _, uid := range uids {
		s.add(uid)
	}
}

// randomNode returns an object with one of few UIDs. Some of the UIDs are UUIDs.
func randomNode(r *rand.Rand, uids []types.UID) *node {
	kinds := []schema.GroupVersionKind{widgets, {Group: "example.com", Version: "v2", Kind: "Widget"}, {Version: "v1", Kind: "Pod"}}
	i := r.IntN(len(uids))
	n := &node{uid: uids[i], name: fmt.Sprint("o", i), namespace: []string{"ns", "ns", "other", ""}[r.IntN(4)], kind: kinds[r.IntN(len(kinds))],
		resourceVersion: []string{fmt.Sprint(1 + r.IntN(20)), "x", "", fmt.Sprint(100 + r.IntN(20))}[r.IntN(4)], beingDeleted: r.IntN(4) == 0}
	for range r.IntN(4) {
		owner := r.IntN(len(uids))
		ref := metav1.OwnerReference{APIVersion: []string{"example.com/v1", "v1", "a/b/c"}[r.IntN(3)], Kind: []string{"Widget", "Pod"}[r.IntN(2)],
			Name: fmt.Sprint("o", owner), UID: uids[owner]}
		for _, to := range []**bool{&ref.Controller, &ref.BlockOwnerDeletion} {
			if r.IntN(2) == 0 {
				*to = new(bool)
				**to = r.IntN(2) == 0
			}
		}
		n.ownerReferences = append(n.ownerReferences, ref)
	}
	for range r.IntN(3) {
		n.finalizers = append(n.finalizers, []string{metav1.FinalizerDeleteDependents, metav1.FinalizerOrphanDependents, "example.com/f"}[r.IntN(3)])
	}
	return n
}

func randomFound(r *rand.Rand, refs []metav1.OwnerReference) ownerStates {
	found := ownerStates{}
	for _, ref := range refs {
		if r.IntN(3) > 0 {
			found[coordinatesOf(ref)] = ownerState(r.IntN(int(ownerWaiting) + 1))
		}
	}
	return found
}

// sortedAction is an action without an order of dependents.
func sortedAction(a action) action {
	slices.Sort(a.enqueue)
	slices.SortFunc(a.orphans, func(x, y orphan) int { return strings.Compare(string(x.dependent.uid), string(y.dependent.uid)) })
	return a
}

var exported = cmp.AllowUnexported(action{}, node{}, patch{}, orphan{})

// TestGraphAgainstModel applies random changes to the graph and to its model, and compares all results.
func TestGraphAgainstModel(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 7))
		uids := []types.UID{"x", "01234567-89AB-cdef-0123-456789abcdef", "01234567-89ab-cdef-0123-456789abcdef", "g1234567-89ab-cdef-0123-456789abcdef",
			"01234567-89ab-cdef-0123_456789abcdef", "00000000-0000-0000-0000-000000000000"}
		for range 2 + r.IntN(20) { // with many dependents, sets have another form
			key := id{}
			for i := range key {
				key[i] = byte(r.Uint32())
			}
			uids = append(uids, key.uuid())
		}
		g, model := newGraph(), newPlainGraph()
		for step := range 400 {
			n := randomNode(r, uids)
			var got, want any
			switch r.IntN(13) {
			case 0, 1, 2, 3:
				copied := *n
				got, want = sortedUIDs(g.update(n)), sortedUIDs(model.update(&copied))
			case 4:
				got, want = sortedUIDs(g.remove(n.uid)), sortedUIDs(model.remove(n.uid))
			case 5:
				for _, ref := range n.ownerReferences {
					g.confirmAbsent(ref, n.namespace)
					model.confirmAbsent(ref, n.namespace)
				}
			case 6:
				if r.IntN(4) == 0 {
					g.markUnverified(n.kind.GroupKind())
					model.markUnverified(n.kind.GroupKind())
				}
				got, want = sortedUIDs(g.unverified(n.kind.GroupKind())), sortedUIDs(model.unverified(n.kind.GroupKind()))
			case 7:
				g.noteOrphaned(n.uid)
				model.noteOrphaned(n.uid)
			default:
				found := ownerStates{}
				if stored := model.uidToNode[n.uid]; stored != nil {
					found = randomFound(r, stored.ownerReferences)
				}
				got, want = sortedAction(g.nextAction(n.uid, found)), sortedAction(model.nextAction(n.uid, found))
			}
			if d := cmp.Diff(want, got, exported); d != "" {
				t.Fatalf("seed %d, step %d (-model +graph):\n%s", seed, step, d)
			}
			if len(g.vertices) != len(model.uidToNode) || len(g.dependents) != len(model.dependents) || len(g.tombstones) != len(model.tombstones) {
				t.Fatalf("seed %d, step %d: %d objects, %d owners, %d tombstones; the model has %d, %d, %d", seed, step,
					len(g.vertices), len(g.dependents), len(g.tombstones), len(model.uidToNode), len(model.dependents), len(model.tombstones))
			}
		}
		for _, uid := range uids {
			g.remove(uid)
		}
		if n := len(g.vertices) + len(g.dependents) + len(g.tombstones) + len(g.places) + g.unverifiedCount; n > 0 {
			t.Fatalf("seed %d: the empty graph is not: %+v", seed, g)
		}
	}
}

func sortedUIDs(uids []types.UID) []types.UID {
	slices.Sort(uids)
	return uids
}
