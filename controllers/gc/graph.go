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

// object is what the graph knows of one object.
type object struct {
	uid             types.UID
	kind            schema.GroupVersionKind
	namespace, name string
	resourceVersion string
	owners          []metav1.OwnerReference
	finalizers      []string
	deleting        bool
	// doubtful: it may have been deleted while its kind was not watched.
	doubtful bool
}

func (o *object) waitsForDependents() bool {
	return o.deleting && slices.Contains(o.finalizers, metav1.FinalizerDeleteDependents)
}

func (o *object) orphansDependents() bool {
	return o.deleting && slices.Contains(o.finalizers, metav1.FinalizerOrphanDependents)
}

// answers reports whether o is the owner that ref refers to, in an object in the given namespace.
func (o *object) answers(ref metav1.OwnerReference, namespace string) bool {
	gv, err := schema.ParseGroupVersion(ref.APIVersion)
	return err == nil && o.uid == ref.UID && o.name == ref.Name &&
		o.kind.Group == gv.Group && o.kind.Kind == ref.Kind &&
		o.reachableFrom(namespace)
}

// reachableFrom reports whether an object in that namespace, empty for cluster-scoped, can be owned by o.
func (o *object) reachableFrom(namespace string) bool {
	return o.namespace == "" || o.namespace == namespace
}

// graph has the owner references of all objects, by UID. It does no I/O: its methods record a change,
// return which objects must be reconciled because of it, and plan what is to be done about one object.
//
// An owner may be known by its dependents' references only, as a virtual node of the collector in
// Kubernetes. Whether it exists is for the caller to find out; the graph only remembers which owners
// were deleted.
//
// The methods may be called from many goroutines.
type graph struct {
	mu      sync.Mutex
	objects map[types.UID]*object
	// dependents is the reverse of owners, whether or not the owner was seen.
	dependents map[types.UID]map[types.UID]*object
	// deleted are the tombstones of owners, kept for as long as something refers to them.
	deleted map[types.UID]*tombstone
}

// tombstone stands for an object whose deletion an informer delivered.
type tombstone struct {
	last *object // nil if it was never seen
	// confirmed: a live read did not find it either.
	confirmed bool
}

func newGraph() *graph {
	return &graph{
		objects:    map[types.UID]*object{},
		dependents: map[types.UID]map[types.UID]*object{},
		deleted:    map[types.UID]*tombstone{},
	}
}

// see records the state of an object and returns the UIDs of the objects to reconcile. A state that is
// older than that in the graph is ignored. The graph keeps o.
func (g *graph) see(o *object) []types.UID {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.seen(o)
}

func (g *graph) seen(o *object) []types.UID {
	old := g.objects[o.uid]
	if old != nil && older(o.resourceVersion, old.resourceVersion) {
		return nil
	}
	g.objects[o.uid] = o
	delete(g.deleted, o.uid)

	look := newSet()
	if old == nil {
		g.link(o)
		// They may have been planned without it, or refer to its UID with another name or namespace.
		look.addAll(slices.Collect(maps.Keys(g.dependents[o.uid])))
	} else {
		g.link(o)
		g.unlink(old, o.owners)
		if relevant(old, o) {
			look.addAll(g.waitingOwners(old))
		}
	}
	if old == nil || relevant(old, o) {
		if len(o.owners) > 0 || o.waitsForDependents() || o.orphansDependents() {
			look.add(o.uid)
		}
		look.addAll(g.waitingOwners(o))
		if o.waitsForDependents() && (old == nil || !old.waitsForDependents()) {
			look.addAll(slices.Collect(maps.Keys(g.dependents[o.uid])))
		}
	}
	return look.list
}

// forget records the deletion of an object and returns the UIDs of the objects to reconcile.
func (g *graph) forget(uid types.UID) []types.UID {
	g.mu.Lock()
	defer g.mu.Unlock()
	look := newSet()
	o := g.objects[uid]
	if len(g.dependents[uid]) > 0 {
		if g.deleted[uid] == nil {
			g.deleted[uid] = &tombstone{last: o}
		}
		look.addAll(slices.Collect(maps.Keys(g.dependents[uid])))
	}
	if o != nil {
		delete(g.objects, uid)
		g.unlink(o, nil)
		look.addAll(g.waitingOwners(o))
	}
	return look.list
}

// refresh is see for an object that is in the graph. Any other is ignored, because its deletion may have
// been delivered since it was read.
func (g *graph) refresh(o *object) []types.UID {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.objects[o.uid] == nil {
		return nil
	}
	return g.seen(o)
}

// confirm records that a live read did not find what ref, of an object in that namespace, refers to.
func (g *graph) confirm(ref metav1.OwnerReference, namespace string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if t := g.deleted[ref.UID]; t != nil && t.last != nil && t.last.answers(ref, namespace) {
		t.confirmed = true
	}
}

// has reports whether an object is in the graph.
func (g *graph) has(uid types.UID) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.objects[uid] != nil
}

// doubt marks the objects of one kind, in any version, as doubtful until they are seen again.
func (g *graph) doubt(kind schema.GroupKind) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, o := range g.objects {
		if o.kind.GroupKind() == kind {
			o.doubtful = true
		}
	}
}

// doubtful returns the objects of one kind that are still doubtful.
func (g *graph) doubtful(kind schema.GroupKind) []types.UID {
	g.mu.Lock()
	defer g.mu.Unlock()
	var uids []types.UID
	for uid, o := range g.objects {
		if o.doubtful && o.kind.GroupKind() == kind {
			uids = append(uids, uid)
		}
	}
	return uids
}

func (g *graph) link(o *object) {
	for _, ref := range o.owners {
		if g.dependents[ref.UID] == nil {
			g.dependents[ref.UID] = map[types.UID]*object{}
		}
		g.dependents[ref.UID][o.uid] = o
	}
}

// unlink removes o from the dependents of its owners, but for those that are in keep.
func (g *graph) unlink(o *object, keep []metav1.OwnerReference) {
	for _, ref := range o.owners {
		if slices.ContainsFunc(keep, func(k metav1.OwnerReference) bool { return k.UID == ref.UID }) {
			continue
		}
		delete(g.dependents[ref.UID], o.uid)
		if len(g.dependents[ref.UID]) == 0 {
			delete(g.dependents, ref.UID)
			delete(g.deleted, ref.UID)
		}
	}
}

// waitingOwners are the owners of o whose deletion waits for their dependents.
func (g *graph) waitingOwners(o *object) []types.UID {
	var uids []types.UID
	for _, ref := range o.owners {
		if owner := g.objects[ref.UID]; owner != nil && (owner.waitsForDependents() || owner.orphansDependents()) {
			uids = append(uids, ref.UID)
		}
	}
	return uids
}

// relevant reports whether the change from old to o can change the plan of any object.
func relevant(old, o *object) bool {
	return old.deleting != o.deleting || !slices.Equal(old.finalizers, o.finalizers) ||
		!slices.EqualFunc(old.owners, o.owners, sameReference)
}

func sameReference(a, b metav1.OwnerReference) bool {
	return a.UID == b.UID && a.Name == b.Name && a.Kind == b.Kind && a.APIVersion == b.APIVersion &&
		blocks(a) == blocks(b)
}

func blocks(ref metav1.OwnerReference) bool {
	return ref.BlockOwnerDeletion != nil && *ref.BlockOwnerDeletion
}

// older compares resource versions; one that is not a number is never older.
func older(a, b string) bool {
	x, errX := strconv.ParseUint(a, 10, 64)
	y, errY := strconv.ParseUint(b, 10, 64)
	return errX == nil && errY == nil && cmp.Less(x, y)
}

// set is a set that remembers the order of its members.
type set struct {
	has  map[types.UID]bool
	list []types.UID
}

func newSet() *set { return &set{has: map[types.UID]bool{}} }

func (s *set) add(uid types.UID) {
	if !s.has[uid] {
		s.has[uid] = true
		s.list = append(s.list, uid)
	}
}

func (s *set) addAll(uids []types.UID) {
	for _, uid := range uids {
		s.add(uid)
	}
}
