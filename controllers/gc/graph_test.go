package gc

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

var widgets = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"}

// thing makes an object in namespace "ns" whose UID is its name.
func thing(name string, change ...func(*object)) *object {
	o := &object{uid: types.UID(name), kind: widgets, namespace: "ns", name: name}
	for _, c := range change {
		c(o)
	}
	return o
}

func ownedBy(names ...string) func(*object) {
	return func(o *object) {
		for _, n := range names {
			o.owners = append(o.owners, ref(n))
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

func blockingOn(names ...string) func(*object) {
	return func(o *object) {
		for _, n := range names {
			o.owners = append(o.owners, blocking(n))
		}
	}
}

func deleting(finalizers ...string) func(*object) {
	return func(o *object) { o.deleting, o.finalizers = true, finalizers }
}

func with(finalizers ...string) func(*object) {
	return func(o *object) { o.finalizers = finalizers }
}

// said is a plan in the fewest words.
type said struct {
	Lookup     []string
	Owners     []string
	Finalizers []string
	Delete     metav1.DeletionPropagation
	Release    []string
	Wake       []string
	Invalid    []string
	Unresolved bool
	Verify     bool
}

func say(p plan) said {
	s := said{Delete: p.delete, Unresolved: p.unresolved, Verify: p.verify}
	names := func(refs []metav1.OwnerReference) []string {
		list := []string{}
		for _, r := range refs {
			n := r.Name
			if blocks(r) {
				n += "!"
			}
			list = append(list, n)
		}
		return list
	}
	if p.lookup != nil {
		s.Lookup = names(p.lookup)
	}
	if p.invalid != nil {
		s.Invalid = names(p.invalid)
	}
	if p.patch != nil && p.patch.owners != nil {
		s.Owners = names(p.patch.owners)
	}
	if p.patch != nil {
		s.Finalizers = p.patch.finalizers
	}
	for _, r := range p.release {
		s.Release = append(s.Release, r.dependent.name)
	}
	for _, u := range p.wake {
		s.Wake = append(s.Wake, string(u))
	}
	slices.Sort(s.Release)
	slices.Sort(s.Wake)
	return s
}

func TestPlan(t *testing.T) {
	const foreground, orphan = metav1.FinalizerDeleteDependents, metav1.FinalizerOrphanDependents
	background := said{Delete: metav1.DeletePropagationBackground}
	elsewhere := func(o *object) { o.namespace = "other" }
	clusterWide := func(o *object) { o.namespace = "" }

	for _, tt := range []struct {
		name     string
		seen     []*object
		gone     []types.UID // reported as deleted, and confirmed by the server
		reported []types.UID // only reported
		found    map[string]verdict
		doubt    bool
		of       types.UID
		want     said
	}{
		{name: "not there", of: "x"},
		{name: "no owner", seen: []*object{thing("x")}, of: "x"},
		{name: "owner there", seen: []*object{thing("a"), thing("x", ownedBy("a"))}, of: "x"},
		{name: "owner never seen", seen: []*object{thing("x", ownedBy("a"))}, of: "x",
			want: said{Lookup: []string{"a"}}},
		{name: "owner looked up and absent", seen: []*object{thing("x", ownedBy("a"))}, of: "x",
			found: map[string]verdict{"a": absent}, want: background},
		{name: "owner looked up and present", seen: []*object{thing("x", ownedBy("a"))}, of: "x",
			found: map[string]verdict{"a": present}},
		{name: "owner of a kind that is not served", seen: []*object{thing("x", ownedBy("a"))}, of: "x",
			found: map[string]verdict{"a": unserved}, want: said{Unresolved: true}},
		{name: "owner reported deleted", seen: []*object{thing("a"), thing("x", ownedBy("a"))},
			reported: []types.UID{"a"}, of: "x", want: said{Lookup: []string{"a"}}},
		{name: "owner reported deleted, and then looked up and absent", seen: []*object{thing("a"), thing("x", ownedBy("a"))},
			reported: []types.UID{"a"}, of: "x", found: map[string]verdict{"a": absent}, want: background},
		{name: "owner reported deleted, and then its kind", seen: []*object{thing("a"), thing("x", ownedBy("a"))},
			reported: []types.UID{"a"}, of: "x", found: map[string]verdict{"a": unserved}, want: background},
		{name: "owner reported deleted by mistake", seen: []*object{thing("a"), thing("x", ownedBy("a"))},
			reported: []types.UID{"a"}, of: "x", found: map[string]verdict{"a": present}},
		{name: "one owner absent, the other not to be resolved", seen: []*object{thing("x", ownedBy("a", "b"))}, of: "x",
			found: map[string]verdict{"a": absent, "b": unserved}, want: said{Unresolved: true}},
		{name: "one owner absent, one there, one not to be resolved", seen: []*object{thing("x", ownedBy("a", "b", "c"))}, of: "x",
			found: map[string]verdict{"a": absent, "b": present, "c": unserved}, want: said{Unresolved: true}},
		{name: "may have been deleted itself", seen: []*object{thing("a"), thing("x", ownedBy("a"))}, gone: []types.UID{"a"},
			doubt: true, of: "x", want: said{Verify: true}},
		{name: "owner seen to go", seen: []*object{thing("a"), thing("x", ownedBy("a"))},
			gone: []types.UID{"a"}, of: "x", want: background},
		{name: "one owner of two is left", seen: []*object{thing("a"), thing("b"), thing("x", ownedBy("a", "b"))},
			gone: []types.UID{"a"}, of: "x", want: said{Owners: []string{"b"}}},
		{name: "all owners gone", seen: []*object{thing("a"), thing("b"), thing("x", ownedBy("a", "b"))},
			gone: []types.UID{"a", "b"}, of: "x", want: background},
		{name: "is going already", seen: []*object{thing("a"), thing("x", ownedBy("a"), deleting("f"))},
			gone: []types.UID{"a"}, of: "x"},
		{name: "owner in another namespace", seen: []*object{thing("a", elsewhere), thing("x", ownedBy("a"))}, of: "x",
			want: said{Lookup: []string{"a"}}},
		{name: "owner in another namespace, looked up and absent", seen: []*object{thing("a", elsewhere), thing("x", ownedBy("a"))}, of: "x",
			found: map[string]verdict{"a": absent}, want: said{Delete: metav1.DeletePropagationBackground, Invalid: []string{"a"}}},
		{name: "owner in another namespace, and one that is there", seen: []*object{thing("a", elsewhere), thing("b"), thing("x", ownedBy("a", "b"))}, of: "x",
			found: map[string]verdict{"a": absent}, want: said{Owners: []string{"b"}, Invalid: []string{"a"}}},
		{name: "owner in no namespace", seen: []*object{thing("a", clusterWide), thing("x", ownedBy("a"))}, of: "x"},
		{name: "owner in a namespace, dependent in none", seen: []*object{thing("a"), thing("x", ownedBy("a"), clusterWide)}, of: "x",
			want: said{Lookup: []string{"a"}}},
		{name: "owner in a namespace, dependent in none, looked up", seen: []*object{thing("a"), thing("x", ownedBy("a"), clusterWide)}, of: "x",
			found: map[string]verdict{"a": unresolvable}, want: said{Unresolved: true, Invalid: []string{"a"}}},
		{name: "owner of a namespaced kind gone, dependent in none", seen: []*object{thing("x", ownedBy("a", "b"), clusterWide)}, of: "x",
			found: map[string]verdict{"a": unresolvable, "b": absent}, want: said{Unresolved: true, Invalid: []string{"a"}}},
		{name: "same UID, other name", seen: []*object{thing("a"), thing("x", ownedBy("a"), func(o *object) { o.owners[0].Name = "b" })}, of: "x",
			want: said{Lookup: []string{"b"}}},
		{name: "keeps its orphan finalizer's meaning", seen: []*object{thing("a"), thing("x", ownedBy("a"), with(orphan))},
			gone: []types.UID{"a"}, of: "x", want: said{Delete: metav1.DeletePropagationOrphan}},
		{name: "keeps its foreground finalizer's meaning", seen: []*object{thing("a"), thing("x", ownedBy("a"), with(foreground))},
			gone: []types.UID{"a"}, of: "x", want: said{Delete: metav1.DeletePropagationForeground}},

		{name: "owner seems to wait", seen: []*object{thing("a", deleting(foreground)), thing("x", blockingOn("a"))}, of: "x",
			want: said{Lookup: []string{"a!"}}},
		{name: "owner waits", seen: []*object{thing("a", deleting(foreground)), thing("x", blockingOn("a"))}, of: "x",
			found: map[string]verdict{"a": waiting}, want: background},
		{name: "owner waits, and there are grandchildren", of: "x",
			found: map[string]verdict{"a": waiting},
			seen:  []*object{thing("a", deleting(foreground)), thing("x", blockingOn("a")), thing("y", ownedBy("x"))},
			want:  said{Delete: metav1.DeletePropagationForeground}},
		{name: "one owner waits, the other stays", of: "x",
			found: map[string]verdict{"a": waiting},
			seen:  []*object{thing("a", deleting(foreground)), thing("b"), thing("x", blockingOn("a", "b"))},
			want:  said{Owners: []string{"b!"}}},
		{name: "waits for who blocks", of: "a",
			seen: []*object{thing("a", deleting("f", foreground)), thing("x", blockingOn("a")), thing("y", ownedBy("a")), thing("z", blockingOn("a"), deleting("f"))},
			want: said{Wake: []string{"x"}}},
		{name: "in the foreground, blocked by nothing but itself", seen: []*object{thing("x", blockingOn("x"), deleting(foreground))}, of: "x",
			want: said{Finalizers: []string{}}},
		{name: "waits for nobody any more", of: "a",
			seen: []*object{thing("a", deleting("f", foreground)), thing("y", ownedBy("a"))},
			want: said{Finalizers: []string{"f"}}},
		{name: "nobody in another namespace blocks", of: "a",
			seen: []*object{thing("a", deleting(foreground)), thing("y", blockingOn("a"), elsewhere)},
			want: said{Finalizers: []string{}}},
		{name: "a circle is broken", of: "x",
			found: map[string]verdict{"a": waiting},
			seen:  []*object{thing("a", deleting(foreground), blockingOn("x")), thing("x", blockingOn("a"))},
			want:  said{Owners: []string{"a"}}},

		{name: "orphans its dependents", of: "a",
			seen: []*object{thing("a", deleting(orphan)), thing("x", blockingOn("a")), thing("y", ownedBy("a"))},
			want: said{Release: []string{"x", "y"}}},
		{name: "has orphaned them all", of: "a", seen: []*object{thing("a", deleting(orphan, "f"))},
			want: said{Finalizers: []string{"f"}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := newGraph()
			for _, o := range tt.seen {
				g.see(o)
			}
			for _, uid := range slices.Concat(tt.gone, tt.reported) {
				g.forget(uid)
			}
			for _, uid := range tt.gone {
				g.confirm(ref(string(uid)), "ns")
			}
			if tt.doubt {
				g.doubt(widgets.GroupKind())
			}
			found := verdicts{}
			for _, o := range tt.seen {
				for _, ref := range o.owners {
					if v, ok := tt.found[ref.Name]; ok {
						found[coordinatesOf(ref)] = v
					}
				}
			}
			if d := cmp.Diff(tt.want, say(g.plan(tt.of, found))); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestLook(t *testing.T) {
	const foreground = metav1.FinalizerDeleteDependents
	version := func(v string) func(*object) { return func(o *object) { o.resourceVersion = v } }

	g := newGraph()
	for _, step := range []struct {
		name string
		do   func() []types.UID
		want []types.UID
	}{
		{"an owner", func() []types.UID { return g.see(thing("a")) }, nil},
		{"a dependent", func() []types.UID { return g.see(thing("x", ownedBy("a"), version("5"))) }, []types.UID{"x"}},
		{"the same again", func() []types.UID { return g.see(thing("x", ownedBy("a"), version("6"))) }, nil},
		{"an older one", func() []types.UID { return g.see(thing("x", version("4"))) }, nil},
		{"an unknown one refreshed", func() []types.UID { return g.refresh(thing("q", ownedBy("a"))) }, nil},
		{"the owner begins to wait", func() []types.UID { return g.see(thing("a", deleting(foreground))) }, []types.UID{"a", "x"}},
		{"the dependent lets go", func() []types.UID { return g.see(thing("x", version("7"))) }, []types.UID{"a"}},
		{"and comes back", func() []types.UID { return g.see(thing("x", ownedBy("a"), version("8"))) }, []types.UID{"x", "a"}},
		{"the owner goes", func() []types.UID { return g.forget("a") }, []types.UID{"x"}},
		{"the dependent goes", func() []types.UID { return g.forget("x") }, nil},
	} {
		if d := cmp.Diff(step.want, step.do()); d != "" {
			t.Errorf("%s: %s", step.name, d)
		}
	}
	if len(g.objects)+len(g.dependents)+len(g.deleted) > 0 {
		t.Errorf("left behind: %+v", g)
	}
}
