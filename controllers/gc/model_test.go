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

// world is the dumbest server there is: a map, and for each of three streams the events that have
// not been delivered yet. Streams say nothing about each other's order.
type world struct {
	objects map[types.UID]*object
	version int
	streams [3][]event
}

type event struct {
	object object
	gone   bool
}

func (w *world) emit(o *object, gone bool) {
	n := int(o.uid[len(o.uid)-1]) % len(w.streams)
	w.streams[n] = append(w.streams[n], event{*o, gone})
}

func (w *world) put(o object) {
	w.version++
	o.resourceVersion = strconv.Itoa(w.version)
	if o.deleting && len(o.finalizers) == 0 {
		delete(w.objects, o.uid)
		w.emit(&o, true)
		return
	}
	w.objects[o.uid] = &o
	w.emit(&o, false)
}

func (w *world) remove(uid types.UID, how metav1.DeletionPropagation) {
	o := *w.objects[uid]
	o.deleting = true
	o.finalizers = slices.Clone(o.finalizers)
	switch how {
	case metav1.DeletePropagationForeground:
		o.finalizers = append(o.finalizers, metav1.FinalizerDeleteDependents)
	case metav1.DeletePropagationOrphan:
		o.finalizers = append(o.finalizers, metav1.FinalizerOrphanDependents)
	}
	w.put(o)
}

// current finds the object that a plan was made for, if nothing has happened to it since.
func (w *world) current(o object) (object, bool) {
	now := w.objects[o.uid]
	if now == nil || now.resourceVersion != o.resourceVersion {
		return object{}, false
	}
	return *now, true
}

func (w *world) verdict(ref metav1.OwnerReference) verdict {
	switch o := w.objects[ref.UID]; {
	case o == nil:
		return absent
	case o.waitsForDependents():
		return waiting
	default:
		return present
	}
}

// settle delivers events and carries out plans, in random order, until there is nothing to do.
func (w *world) settle(g *graph, r *rand.Rand) {
	todo := map[types.UID]bool{}
	for {
		var ready []int
		for i, s := range w.streams {
			if len(s) > 0 {
				ready = append(ready, i)
			}
		}
		if len(ready) == 0 && len(todo) == 0 {
			return
		}
		if len(ready) > 0 && (len(todo) == 0 || r.IntN(2) == 0) {
			i := ready[r.IntN(len(ready))]
			e := w.streams[i][0]
			w.streams[i] = w.streams[i][1:]
			look := g.see
			if e.gone {
				look = func(o *object) []types.UID { return g.forget(o.uid) }
			}
			for _, uid := range look(&e.object) {
				todo[uid] = true
			}
			continue
		}
		uids := slices.Sorted(maps.Keys(todo))
		uid := uids[r.IntN(len(uids))]
		delete(todo, uid)
		if w.carryOut(g, uid, todo) {
			todo[uid] = len(ready) > 0 || todo[uid] // a conflict: once more when the event has come
		}
		maps.DeleteFunc(todo, func(_ types.UID, again bool) bool { return !again })
	}
}

// carryOut does what the plan for an object says, and reports whether something was out of date.
func (w *world) carryOut(g *graph, uid types.UID, todo map[types.UID]bool) (stale bool) {
	p := g.plan(uid, nil)
	if len(p.lookup) > 0 {
		found := verdicts{}
		for _, ref := range p.lookup {
			found[coordinatesOf(ref)] = w.verdict(ref)
			if w.objects[ref.UID] == nil {
				g.confirm(ref, p.object.namespace)
			}
		}
		p = g.plan(uid, found)
	}
	for _, uid := range p.wake {
		todo[uid] = true
	}
	change := func(o object, p patch) {
		now, ok := w.current(o)
		if !ok {
			stale = true
			return
		}
		if p.owners != nil {
			now.owners = p.owners
		}
		if p.finalizers != nil {
			now.finalizers = p.finalizers
		}
		w.put(now)
	}
	for _, r := range p.release {
		change(r.dependent, r.patch)
	}
	if p.patch != nil {
		change(p.object, *p.patch)
	}
	if p.delete != "" {
		if _, ok := w.current(p.object); ok {
			w.remove(uid, p.delete)
		} else {
			stale = true
		}
	}
	return stale
}

// left is the oracle: what must be left, with which owners, after root was deleted.
func left(before map[types.UID]*object, root types.UID, how metav1.DeletionPropagation) string {
	owners := map[types.UID][]types.UID{}
	for uid, o := range before {
		owners[uid] = nil
		for _, ref := range o.owners {
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
		w, g := &world{objects: map[types.UID]*object{}}, newGraph()
		n := 2 + r.IntN(12)
		for i := range n {
			o := thing(fmt.Sprintf("o%02d", i))
			for range r.IntN(3) {
				// Mostly older objects own younger ones; now and then there is a circle.
				owner := r.IntN(max(i, 1))
				if r.IntN(10) == 0 {
					owner = r.IntN(n)
				}
				name := fmt.Sprintf("o%02d", owner)
				if owner == i || slices.ContainsFunc(o.owners, func(ref metav1.OwnerReference) bool { return ref.Name == name }) {
					continue
				}
				if r.IntN(2) == 0 {
					blockingOn(name)(o)
				} else {
					ownedBy(name)(o)
				}
			}
			w.put(*o)
		}
		// Owners are there before dependents are looked at, as when one creates things in order.
		for range 3 {
			w.settle(g, r)
			if len(w.objects) == 0 {
				break
			}
			before := maps.Clone(w.objects)
			root := slices.Sorted(maps.Keys(before))[r.IntN(len(before))]
			how := []metav1.DeletionPropagation{
				metav1.DeletePropagationBackground, metav1.DeletePropagationForeground, metav1.DeletePropagationOrphan,
			}[r.IntN(3)]
			w.remove(root, how)
			w.settle(g, r)

			got := map[types.UID][]types.UID{}
			for uid, o := range w.objects {
				got[uid] = nil
				for _, ref := range o.owners {
					got[uid] = append(got[uid], ref.UID)
				}
			}
			if want := left(before, root, how); describe(got) != want {
				t.Fatalf("seed %d: after %s deletion of %s:\n%s\nwant:\n%s", seed, how, root, describe(got), want)
			}
			if len(g.objects) != len(w.objects) || len(g.deleted) > 0 {
				t.Fatalf("seed %d: the graph has %d objects and %d tombstones, the world has %d", seed, len(g.objects), len(g.deleted), len(w.objects))
			}
		}
	}
}
