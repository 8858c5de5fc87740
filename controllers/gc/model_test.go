package gc

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// fakeServer is the simplest model of an API server: a map, and for each of three streams the
// events that have not been delivered yet. There is no order between streams.
type fakeServer struct {
	objects map[types.UID]*node
	version int
	streams [3][]event
}

// event is an event of a stream.
type event struct {
	object  node
	deleted bool
}

func (s *fakeServer) emit(o *node, gone bool) {
	n := int(o.uid[len(o.uid)-1]) % len(s.streams)
	s.streams[n] = append(s.streams[n], event{*o, gone})
}

func (s *fakeServer) write(o node) {
	s.version++
	o.resourceVersion = strconv.Itoa(s.version)
	if o.beingDeleted && len(o.finalizers) == 0 {
		delete(s.objects, o.uid)
		s.emit(&o, true)
		return
	}
	s.objects[o.uid] = &o
	s.emit(&o, false)
}

func (s *fakeServer) delete(uid types.UID, how metav1.DeletionPropagation) {
	o := *s.objects[uid]
	o.beingDeleted = true
	o.finalizers = slices.Clone(o.finalizers)
	switch how {
	case metav1.DeletePropagationForeground:
		o.finalizers = append(o.finalizers, metav1.FinalizerDeleteDependents)
	case metav1.DeletePropagationOrphan:
		o.finalizers = append(o.finalizers, metav1.FinalizerOrphanDependents)
	}
	s.write(o)
}

// current returns an object, if it has not changed since the action was computed.
func (s *fakeServer) current(o node) (node, bool) {
	now := s.objects[o.uid]
	if now == nil || now.resourceVersion != o.resourceVersion {
		return node{}, false
	}
	return *now, true
}

func (s *fakeServer) ownerState(ref metav1.OwnerReference) ownerState {
	switch o := s.objects[ref.UID]; {
	case o == nil:
		return ownerAbsent
	case o.isDeletingDependents():
		return ownerWaiting
	default:
		return ownerPresent
	}
}

// runUntilIdle delivers events and executes actions, in random order, until there is nothing to do.
func (s *fakeServer) runUntilIdle(g *graph, r *rand.Rand) {
	todo := map[types.UID]bool{}
	for {
		var ready []int
		for i, s := range s.streams {
			if len(s) > 0 {
				ready = append(ready, i)
			}
		}
		if len(ready) == 0 && len(todo) == 0 {
			return
		}
		if len(ready) > 0 && (len(todo) == 0 || r.IntN(2) == 0) {
			i := ready[r.IntN(len(ready))]
			e := s.streams[i][0]
			s.streams[i] = s.streams[i][1:]
			apply := g.update
			if e.deleted {
				apply = func(o *node) []types.UID { return g.remove(o.uid) }
			}
			for _, uid := range apply(&e.object) {
				todo[uid] = true
			}
			continue
		}
		uids := slices.Sorted(maps.Keys(todo))
		uid := uids[r.IntN(len(uids))]
		delete(todo, uid)
		if s.execute(g, uid, todo) {
			todo[uid] = len(ready) > 0 || todo[uid] // a conflict: retry after the event is delivered
		}
		maps.DeleteFunc(todo, func(_ types.UID, again bool) bool { return !again })
	}
}

// execute executes the next action for an object, and reports whether an object had changed in the meantime.
func (s *fakeServer) execute(g *graph, uid types.UID, todo map[types.UID]bool) (stale bool) {
	a := g.nextAction(uid, nil)
	if len(a.lookup) > 0 {
		found := ownerStates{}
		for _, ref := range a.lookup {
			found[coordinatesOf(ref)] = s.ownerState(ref)
			if s.objects[ref.UID] == nil {
				g.confirmAbsent(ref, a.node.namespace)
			}
		}
		a = g.nextAction(uid, found)
	}
	for _, uid := range a.enqueue {
		todo[uid] = true
	}
	change := func(o node, p patch) {
		now, ok := s.current(o)
		if !ok {
			stale = true
			return
		}
		if p.ownerReferences != nil {
			now.ownerReferences = p.ownerReferences
		}
		if p.finalizers != nil {
			now.finalizers = p.finalizers
		}
		s.write(now)
	}
	for _, r := range a.orphans {
		change(r.dependent, r.patch)
	}
	if a.patch != nil {
		change(a.node, *a.patch)
	}
	if a.delete != "" {
		if _, ok := s.current(a.node); ok {
			s.delete(uid, a.delete)
		} else {
			stale = true
		}
	}
	return stale
}

// survivors is the oracle: the objects, with their owners, that must be left after the deletion of
// root.
func survivors(before map[types.UID]*node, root types.UID, how metav1.DeletionPropagation) string {
	owners := map[types.UID][]types.UID{}
	for uid, o := range before {
		owners[uid] = nil
		for _, ref := range o.ownerReferences {
			owners[uid] = append(owners[uid], ref.UID)
		}
	}
	delete(owners, root)
	if how == metav1.DeletePropagationOrphan {
		for uid := range owners {
			owners[uid] = slices.DeleteFunc(owners[uid], func(o types.UID) bool { return o == root })
		}
	}
	for again := true; again; {
		again = false
		for uid, list := range owners {
			alive := slices.DeleteFunc(slices.Clone(list), func(o types.UID) bool { _, ok := owners[o]; return !ok })
			if len(list) > 0 && len(alive) == 0 {
				delete(owners, uid)
				again = true
			}
		}
	}
	for uid, list := range owners {
		owners[uid] = slices.DeleteFunc(list, func(o types.UID) bool { _, ok := owners[o]; return !ok })
	}
	return describe(owners)
}

func describe(owners map[types.UID][]types.UID) string {
	var b strings.Builder
	for _, uid := range slices.Sorted(maps.Keys(owners)) {
		fmt.Fprintln(&b, uid, slices.Sorted(slices.Values(owners[uid])))
	}
	return b.String()
}

func TestRandomGraphsAgainstOracle(t *testing.T) {
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 0))
		s, g := &fakeServer{objects: map[types.UID]*node{}}, newGraph()
		n := 2 + r.IntN(12)
		for i := range n {
			o := newTestNode(fmt.Sprintf("o%02d", i))
			for range r.IntN(3) {
				// Mostly older objects own younger ones; sometimes there is a cycle.
				owner := r.IntN(max(i, 1))
				if r.IntN(10) == 0 {
					owner = r.IntN(n)
				}
				name := fmt.Sprintf("o%02d", owner)
				if owner == i || slices.ContainsFunc(o.ownerReferences, func(ref metav1.OwnerReference) bool { return ref.Name == name }) {
					continue
				}
				if r.IntN(2) == 0 {
					blockingOn(name)(o)
				} else {
					ownedBy(name)(o)
				}
			}
			s.write(*o)
		}
		// All events are delivered first, as when owners are created before their dependents.
		for range 3 {
			s.runUntilIdle(g, r)
			if len(s.objects) == 0 {
				break
			}
			before := maps.Clone(s.objects)
			root := slices.Sorted(maps.Keys(before))[r.IntN(len(before))]
			how := []metav1.DeletionPropagation{
				metav1.DeletePropagationBackground, metav1.DeletePropagationForeground, metav1.DeletePropagationOrphan,
			}[r.IntN(3)]
			s.delete(root, how)
			s.runUntilIdle(g, r)

			got := map[types.UID][]types.UID{}
			for uid, o := range s.objects {
				got[uid] = nil
				for _, ref := range o.ownerReferences {
					got[uid] = append(got[uid], ref.UID)
				}
			}
			if want := survivors(before, root, how); describe(got) != want {
				t.Fatalf("seed %d: after %s deletion of %s:\n%s\nwant:\n%s", seed, how, root, describe(got), want)
			}
			if len(g.vertices) != len(s.objects) || len(g.tombstones) > 0 {
				t.Fatalf("seed %d: the graph has %d objects and %d tombstones, the server has %d", seed, len(g.vertices), len(g.tombstones), len(s.objects))
			}
		}
	}
}
