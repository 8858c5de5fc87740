package gc

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// widgets is the kind of all test objects.
var widgets = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"}

// newTestNode returns a node in namespace "ns". Its UID equals its name.
func newTestNode(name string, change ...func(*node)) *node {
	o := &node{uid: types.UID(name), kind: widgets, namespace: "ns", name: name}
	for _, c := range change {
		c(o)
	}
	return o
}

func ownedBy(names ...string) func(*node) {
	return func(o *node) {
		for _, n := range names {
			o.ownerReferences = append(o.ownerReferences, ref(n))
		}
	}
}

func ref(name string) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: "example.com/v1", Kind: "Widget", Name: name, UID: types.UID(name)}
}

func blocking(name string) metav1.OwnerReference {
	r := ref(name)
	r.BlockOwnerDeletion = new(bool)
	*r.BlockOwnerDeletion = true
	return r
}

func blockingOn(names ...string) func(*node) {
	return func(o *node) {
		for _, n := range names {
			o.ownerReferences = append(o.ownerReferences, blocking(n))
		}
	}
}

func deleting(finalizers ...string) func(*node) {
	return func(o *node) { o.beingDeleted, o.finalizers = true, finalizers }
}

func with(finalizers ...string) func(*node) {
	return func(o *node) { o.finalizers = finalizers }
}

// summary has the names of the objects in an action, with ! for references that block.
type summary struct {
	Lookup     []string
	Owners     []string
	Finalizers []string
	Delete     metav1.DeletionPropagation
	Orphans    []string
	Enqueue    []string
	Unresolved bool
	Verify     bool
}

// summarize returns the summary of an action.
func summarize(a action) summary {
	s := summary{Delete: a.delete, Unresolved: a.unresolved, Verify: a.verify}
	names := func(refs []metav1.OwnerReference) []string {
		list := []string{}
		for _, r := range refs {
			n := r.Name
			if blocksOwnerDeletion(r) {
				n += "!"
			}
			list = append(list, n)
		}
		return list
	}
	if a.lookup != nil {
		s.Lookup = names(a.lookup)
	}
	if a.patch != nil && a.patch.ownerReferences != nil {
		s.Owners = names(a.patch.ownerReferences)
	}
	if a.patch != nil {
		s.Finalizers = a.patch.finalizers
	}
	for _, r := range a.orphans {
		s.Orphans = append(s.Orphans, r.dependent.name)
	}
	for _, u := range a.enqueue {
		s.Enqueue = append(s.Enqueue, string(u))
	}
	slices.Sort(s.Orphans)
	slices.Sort(s.Enqueue)
	return s
}

func TestNextAction(t *testing.T) {
	const foreground, orphan = metav1.FinalizerDeleteDependents, metav1.FinalizerOrphanDependents
	background := summary{Delete: metav1.DeletePropagationBackground}
	inOtherNamespace := func(o *node) { o.namespace = "other" }
	clusterScoped := func(o *node) { o.namespace = "" }

	for _, tt := range []struct {
		name         string
		nodes        []*node
		deleted      []types.UID // deletion delivered, and confirmed by a live read
		onlyReported []types.UID // deletion delivered
		later        []*node     // after the deletions
		orphaned     []types.UID
		found        map[string]ownerState
		unverified   bool
		of           types.UID
		want         summary
	}{
		{name: "does not exist", of: "x"},
		{name: "no owner", nodes: []*node{newTestNode("x")}, of: "x"},
		{name: "owner present", nodes: []*node{newTestNode("a"), newTestNode("x", ownedBy("a"))}, of: "x"},
		{name: "owner not in the graph", nodes: []*node{newTestNode("x", ownedBy("a"))}, of: "x",
			want: summary{Lookup: []string{"a"}}},
		{name: "owner looked up and absent", nodes: []*node{newTestNode("x", ownedBy("a"))}, of: "x",
			found: map[string]ownerState{"a": ownerAbsent}, want: background},
		{name: "owner looked up and present", nodes: []*node{newTestNode("x", ownedBy("a"))}, of: "x",
			found: map[string]ownerState{"a": ownerPresent}},
		{name: "owner of a kind that is not served", nodes: []*node{newTestNode("x", ownedBy("a"))}, of: "x",
			found: map[string]ownerState{"a": ownerUnknown}, want: summary{Unresolved: true}},
		{name: "owner deleted by an event", nodes: []*node{newTestNode("a"), newTestNode("x", ownedBy("a"))},
			onlyReported: []types.UID{"a"}, of: "x", want: summary{Lookup: []string{"a"}}},
		{name: "owner deleted by an event, and then looked up and absent", nodes: []*node{newTestNode("a"), newTestNode("x", ownedBy("a"))},
			onlyReported: []types.UID{"a"}, of: "x", found: map[string]ownerState{"a": ownerAbsent}, want: background},
		{name: "owner deleted by an event, and then its kind", nodes: []*node{newTestNode("a"), newTestNode("x", ownedBy("a"))},
			onlyReported: []types.UID{"a"}, of: "x", found: map[string]ownerState{"a": ownerUnknown}, want: background},
		{name: "owner deleted by an event, but present", nodes: []*node{newTestNode("a"), newTestNode("x", ownedBy("a"))},
			onlyReported: []types.UID{"a"}, of: "x", found: map[string]ownerState{"a": ownerPresent}},
		{name: "one owner absent, the other not served", nodes: []*node{newTestNode("x", ownedBy("a", "b"))}, of: "x",
			found: map[string]ownerState{"a": ownerAbsent, "b": ownerUnknown}, want: summary{Unresolved: true}},
		{name: "one owner absent, one present, one not served", nodes: []*node{newTestNode("x", ownedBy("a", "b", "c"))}, of: "x",
			found: map[string]ownerState{"a": ownerAbsent, "b": ownerPresent, "c": ownerUnknown}, want: summary{Unresolved: true}},
		{name: "unverified", nodes: []*node{newTestNode("a"), newTestNode("x", ownedBy("a"))}, deleted: []types.UID{"a"},
			unverified: true, of: "x", want: summary{Verify: true}},
		{name: "owner confirmed absent", nodes: []*node{newTestNode("a"), newTestNode("x", ownedBy("a"))},
			deleted: []types.UID{"a"}, of: "x", want: background},
		{name: "one owner of two is left", nodes: []*node{newTestNode("a"), newTestNode("b"), newTestNode("x", ownedBy("a", "b"))},
			deleted: []types.UID{"a"}, of: "x", want: summary{Owners: []string{"b"}}},
		{name: "all owners absent", nodes: []*node{newTestNode("a"), newTestNode("b"), newTestNode("x", ownedBy("a", "b"))},
			deleted: []types.UID{"a", "b"}, of: "x", want: background},
		{name: "is being deleted", nodes: []*node{newTestNode("a"), newTestNode("x", ownedBy("a"), deleting("f"))},
			deleted: []types.UID{"a"}, of: "x"},
		{name: "owner in another namespace", nodes: []*node{newTestNode("a", inOtherNamespace), newTestNode("x", ownedBy("a"))}, of: "x",
			want: summary{Lookup: []string{"a"}}},
		{name: "owner in another namespace, looked up and absent", nodes: []*node{newTestNode("a", inOtherNamespace), newTestNode("x", ownedBy("a"))}, of: "x",
			found: map[string]ownerState{"a": ownerAbsent}, want: summary{Delete: metav1.DeletePropagationBackground}},
		{name: "owner in another namespace, and one that is present", nodes: []*node{newTestNode("a", inOtherNamespace), newTestNode("b"), newTestNode("x", ownedBy("a", "b"))}, of: "x",
			found: map[string]ownerState{"a": ownerAbsent}, want: summary{Owners: []string{"b"}}},
		{name: "owner confirmed absent, and a reference of another kind to its UID, dependent cluster-scoped", of: "x",
			nodes: []*node{newTestNode("a", clusterScoped), newTestNode("x", ownedBy("a", "a"), clusterScoped, func(o *node) {
				o.ownerReferences[1].Kind, o.ownerReferences[1].Name = "Namespaced", "b"
			})},
			deleted: []types.UID{"a"}, found: map[string]ownerState{"b": ownerUnresolvable}, want: summary{Unresolved: true}},
		{name: "owner cluster-scoped", nodes: []*node{newTestNode("a", clusterScoped), newTestNode("x", ownedBy("a"))}, of: "x"},
		{name: "owner in a namespace, dependent cluster-scoped", nodes: []*node{newTestNode("a"), newTestNode("x", ownedBy("a"), clusterScoped)}, of: "x",
			want: summary{Lookup: []string{"a"}}},
		{name: "owner in a namespace, dependent cluster-scoped, looked up", nodes: []*node{newTestNode("a"), newTestNode("x", ownedBy("a"), clusterScoped)}, of: "x",
			found: map[string]ownerState{"a": ownerUnresolvable}, want: summary{Unresolved: true}},
		{name: "owner of a namespaced kind absent, dependent cluster-scoped", nodes: []*node{newTestNode("x", ownedBy("a", "b"), clusterScoped)}, of: "x",
			found: map[string]ownerState{"a": ownerUnresolvable, "b": ownerAbsent}, want: summary{Unresolved: true}},
		{name: "same UID, other name", nodes: []*node{newTestNode("a"), newTestNode("x", ownedBy("a"), func(o *node) { o.ownerReferences[0].Name = "b" })}, of: "x",
			want: summary{Lookup: []string{"b"}}},
		{name: "has the finalizer orphan", nodes: []*node{newTestNode("a"), newTestNode("x", ownedBy("a"), with(orphan))},
			deleted: []types.UID{"a"}, of: "x", want: summary{Delete: metav1.DeletePropagationOrphan}},
		{name: "has the finalizer foregroundDeletion", nodes: []*node{newTestNode("a"), newTestNode("x", ownedBy("a"), with(foreground))},
			deleted: []types.UID{"a"}, of: "x", want: summary{Delete: metav1.DeletePropagationForeground}},

		{name: "owner waits, by the graph", nodes: []*node{newTestNode("a", deleting(foreground)), newTestNode("x", blockingOn("a"))}, of: "x",
			want: summary{Lookup: []string{"a!"}}},
		{name: "owner waits", nodes: []*node{newTestNode("a", deleting(foreground)), newTestNode("x", blockingOn("a"))}, of: "x",
			found: map[string]ownerState{"a": ownerWaiting}, want: background},
		{name: "owner waits, and there are grandchildren", of: "x",
			found: map[string]ownerState{"a": ownerWaiting},
			nodes: []*node{newTestNode("a", deleting(foreground)), newTestNode("x", blockingOn("a")), newTestNode("y", ownedBy("x"))},
			want:  summary{Delete: metav1.DeletePropagationForeground}},
		{name: "one owner waits, the other stays", of: "x",
			found: map[string]ownerState{"a": ownerWaiting},
			nodes: []*node{newTestNode("a", deleting(foreground)), newTestNode("b"), newTestNode("x", blockingOn("a", "b"))},
			want:  summary{Owners: []string{"b!"}}},
		{name: "foreground deletion, with blocking dependents", of: "a",
			nodes: []*node{newTestNode("a", deleting("f", foreground)), newTestNode("x", blockingOn("a")), newTestNode("y", ownedBy("a")), newTestNode("z", blockingOn("a"), deleting("f"))},
			want:  summary{Enqueue: []string{"x"}}},
		{name: "foreground deletion, blocked by itself", nodes: []*node{newTestNode("x", blockingOn("x"), deleting(foreground))}, of: "x"},
		{name: "foreground deletion, with no blocking dependents", of: "a",
			nodes: []*node{newTestNode("a", deleting("f", foreground)), newTestNode("y", ownedBy("a"))},
			want:  summary{Finalizers: []string{"f"}}},
		{name: "an object in another namespace blocks", of: "a",
			nodes: []*node{newTestNode("a", deleting(foreground)), newTestNode("y", blockingOn("a"), inOtherNamespace)},
			want:  summary{Enqueue: []string{"y"}}},
		{name: "two references to one UID, one present", of: "x",
			nodes: []*node{newTestNode("a"), newTestNode("b"), newTestNode("x", ownedBy("a", "b"), func(o *node) {
				o.ownerReferences = append(o.ownerReferences, o.ownerReferences[0])
				o.ownerReferences[2].Name = "c"
			})},
			found: map[string]ownerState{"c": ownerAbsent}, want: summary{Owners: []string{"b"}}},
		{name: "a cycle is broken", of: "x",
			found: map[string]ownerState{"a": ownerWaiting},
			nodes: []*node{newTestNode("a", deleting(foreground), blockingOn("x")), newTestNode("x", blockingOn("a"))},
			want:  summary{Owners: []string{"a"}}},

		{name: "orphans its dependents", of: "a",
			nodes: []*node{newTestNode("a", deleting(orphan)), newTestNode("x", blockingOn("a")), newTestNode("y", ownedBy("a"))},
			want:  summary{Orphans: []string{"x", "y"}}},
		{name: "has no dependents left to orphan", of: "a", nodes: []*node{newTestNode("a", deleting(orphan, "f"))},
			want: summary{Finalizers: []string{"f"}}},
		{name: "owner deleted before it orphaned its dependents", nodes: []*node{newTestNode("a", deleting(orphan)), newTestNode("x", ownedBy("a", "b"))},
			onlyReported: []types.UID{"a"}, of: "x", want: summary{Orphans: []string{"x"}}},
		{name: "orphans its dependents, though its finalizer was removed", of: "a",
			nodes: []*node{newTestNode("x", ownedBy("a")), newTestNode("a", deleting(orphan, "f")), newTestNode("a", deleting("f"))},
			want:  summary{Orphans: []string{"x"}}},
		{name: "owner deleted before it orphaned its dependents, but this one came later",
			nodes:        []*node{newTestNode("a", deleting(orphan)), newTestNode("y", ownedBy("a"))},
			onlyReported: []types.UID{"a"}, later: []*node{newTestNode("x", ownedBy("a"))}, of: "x", want: summary{Lookup: []string{"a"}}},
		{name: "owner deleted before it orphaned its dependents, but the reference cannot be removed", of: "x",
			nodes:        []*node{newTestNode("a", deleting(orphan)), newTestNode("x", ownedBy("a"))},
			onlyReported: []types.UID{"a"}, orphaned: []types.UID{"x"}, want: summary{Lookup: []string{"a"}}},
		{name: "owner deleted before it orphaned its dependents, and this one is being deleted", of: "x",
			nodes:        []*node{newTestNode("a", deleting(orphan)), newTestNode("x", blockingOn("a"), deleting("f"))},
			onlyReported: []types.UID{"a"}, want: summary{Orphans: []string{"x"}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := newGraph()
			for _, o := range tt.nodes {
				g.update(o)
			}
			for _, uid := range slices.Concat(tt.deleted, tt.onlyReported) {
				g.remove(uid)
			}
			for _, o := range tt.later {
				g.update(o)
			}
			for _, uid := range tt.orphaned {
				g.noteOrphaned(uid)
			}
			for _, uid := range tt.deleted {
				g.confirmAbsent(ref(string(uid)), "ns")
			}
			if tt.unverified {
				g.markUnverified(widgets.GroupKind())
			}
			found := ownerStates{}
			for _, o := range tt.nodes {
				for _, ref := range o.ownerReferences {
					if v, ok := tt.found[ref.Name]; ok {
						found[coordinatesOf(ref)] = v
					}
				}
			}
			if d := cmp.Diff(tt.want, summarize(g.nextAction(tt.of, found))); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestEnqueued(t *testing.T) {
	const foreground = metav1.FinalizerDeleteDependents
	version := func(v string) func(*node) { return func(o *node) { o.resourceVersion = v } }

	g := newGraph()
	for _, step := range []struct {
		name string
		do   func() []types.UID
		want []types.UID
	}{
		{"an owner", func() []types.UID { return g.update(newTestNode("a")) }, nil},
		{"a dependent", func() []types.UID { return g.update(newTestNode("x", ownedBy("a"), version("5"))) }, []types.UID{"x"}},
		{"another version of it", func() []types.UID { return g.update(newTestNode("x", ownedBy("a"), version("6"))) }, nil},
		{"an older state", func() []types.UID { return g.update(newTestNode("x", version("4"))) }, nil},
		{"an unknown object is updated", func() []types.UID { return g.updateExisting(newTestNode("q", ownedBy("a"))) }, nil},
		{"the owner begins to wait, which its dependents see before it goes on", func() []types.UID { return g.update(newTestNode("a", deleting(foreground))) }, []types.UID{"x", "a"}},
		{"the reference is removed", func() []types.UID { return g.update(newTestNode("x", version("7"))) }, []types.UID{"a"}},
		{"and added again", func() []types.UID { return g.update(newTestNode("x", ownedBy("a"), version("8"))) }, []types.UID{"x", "a"}},
		{"a reference to another one, which does not exist", func() []types.UID { return g.update(newTestNode("x", ownedBy("a", "b"), version("9"))) }, []types.UID{"a", "x"}},
		{"only this one is left", func() []types.UID { return g.update(newTestNode("x", ownedBy("b"), version("10"))) }, []types.UID{"a"}},
		{"the owner is deleted", func() []types.UID { return g.remove("a") }, nil},
		{"the dependent is deleted", func() []types.UID { return g.remove("x") }, nil},
	} {
		if d := cmp.Diff(step.want, step.do()); d != "" {
			t.Errorf("%s: %s", step.name, d)
		}
	}
	if len(g.vertices)+len(g.dependents)+len(g.tombstones)+len(g.places) > 0 {
		t.Errorf("not removed: %+v", g)
	}
}
