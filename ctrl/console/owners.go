package console

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/internal/observe"
	"flyball.dev/internal/objectdiff"
)

// Owners are the trees of owners and dependents in the caches.
type Owners struct {
	Namespace string  `json:"namespace,omitempty"`
	Offset    int     `json:"offset,omitempty"`
	Trees     []Owned `json:"trees"`
	// More is how many trees follow, and Unread how many objects are not looked at.
	More   int `json:"more,omitempty"`
	Unread int `json:"unread,omitempty"`
}

// Owned is an object of a tree. The objects of a tree are in the order of its branches.
type Owned struct {
	Kind           string      `json:"kind"`
	Name           string      `json:"name"`
	Depth          int         `json:"depth"`
	Health         Health      `json:"health"`
	Deleting       time.Time   `json:"deleting,omitzero"`
	Finalizers     []Finalizer `json:"finalizers,omitempty"`
	MoreFinalizers int         `json:"moreFinalizers,omitempty"`
	// Owners is how many owners the object has, if it has several.
	Owners int `json:"owners,omitempty"`
	// Absent is whether only the references of its dependents say that it exists.
	Absent bool `json:"absent,omitempty"`
	// Again is whether the tree has the object, with its dependents, in another place.
	Again bool `json:"again,omitempty"`
	// Cycle is whether the object owns one of its owners.
	Cycle bool    `json:"cycle,omitempty"`
	Below []Owned `json:"dependents,omitempty"`
	// More is how many dependents are not shown.
	More int `json:"moreDependents,omitempty"`
}

const (
	// A page looks at so many objects of the caches, and at so many bytes of them.
	maxTreeObjects = 20_000
	maxTreeBytes   = 8 << 20
	// oneTree is how many objects a page of several trees shows of each.
	oneTree  = 50
	maxDepth = 16
	maxAbove = 12 // owners above the object of a page
	// maxFinalizers is how many finalizers of an object are shown.
	maxFinalizers = 20
)

// graph has the objects of the caches by their UIDs.
type graph struct {
	nodes  map[types.UID]*node
	unread int // objects that were not looked at
}

// node is an object of the caches, or an owner that is in none.
type node struct {
	state            observe.State // nil if it is in no cache
	kind, name       string
	refs             []metav1.OwnerReference
	deleting         bool
	owners, children []*node // the controller is the first owner
	reached          bool    // whether a root has it below
	cycle            bool    // whether it is the root of a cycle
	shown            *Owned  // nil before it is shown
}

// owners returns the trees of a namespace, or of all, from an offset on.
func (c *Console) owners(namespace string, offset int) Owners {
	c.trees.Lock()
	defer c.trees.Unlock()
	g := c.graph(namespace, schema.GroupVersionKind{})
	v := Owners{Namespace: namespace, Offset: offset, Trees: []Owned{}, Unread: g.unread}
	roots := g.roots()
	roots = roots[min(offset, len(roots)):]
	rows := maxRows
	for len(roots) > 0 && rows > 0 {
		tree := roots[0].tree(min(rows, oneTree), nil)
		v.Trees = append(v.Trees, *tree)
		roots, rows = roots[1:], rows-tree.rows()
	}
	v.More = len(roots)
	return v
}

// treeOf returns the tree that an object is in, or nil if it has neither owners nor dependents, and how many objects were
// not looked at.
func (c *Console) treeOf(gvk schema.GroupVersionKind, uid types.UID, namespace string) (tree *Owned, unread int) {
	if uid == "" {
		return nil, 0
	}
	c.trees.Lock()
	defer c.trees.Unlock()
	g := c.graph(namespace, gvk)
	n := g.nodes[uid]
	if n == nil || len(n.owners)+len(n.children) == 0 {
		return nil, g.unread
	}
	path := map[*node]bool{n: true}
	for range maxAbove {
		if len(n.owners) == 0 {
			break
		}
		if n.cycle = path[n.owners[0]]; n.cycle {
			break
		}
		n = n.owners[0]
		path[n] = true
	}
	return n.tree(treeRows, path), g.unread
}

func compareNodes(a, b *node) int {
	return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.kind, b.kind))
}

// graph returns the objects of the caches, the objects of one kind first. The caller holds c.trees, so that pages that are
// requested at once take the memory of one.
func (c *Console) graph(namespace string, first schema.GroupVersionKind) *graph {
	g := &graph{nodes: map[types.UID]*node{}}
	cache := observe.FindCache(c.manager.GetCache())
	if cache == nil {
		return g
	}
	type informer struct {
		observe.CachedKind
		order string
	}
	var informers []informer
	for _, kind := range cache.ObservedKinds() {
		s := kind.Summary()
		order := s.GVK.String() + s.Form
		if s.GVK == first {
			order = ""
		}
		informers = append(informers, informer{kind, order})
	}
	slices.SortFunc(informers, func(a, b informer) int { return cmp.Compare(a.order, b.order) })
	objects, bytes := maxTreeObjects, maxTreeBytes
	for _, kind := range informers {
		states, total := kind.States(namespace, objects)
		for _, state := range states {
			if bytes -= state.Size(); bytes < 0 {
				objects = 0
				break
			}
			g.add(state)
			objects, total = objects-1, total-1
		}
		g.unread += total
	}
	g.connect()
	return g
}

// add adds an object, unless another informer has it too.
func (g *graph) add(state observe.State) {
	obj := state.Object()
	if g.nodes[obj.GetUID()] == nil {
		g.nodes[obj.GetUID()] = &node{
			state: state, kind: kindOf(obj), name: joinName(client.ObjectKeyFromObject(obj)),
			refs: obj.GetOwnerReferences(), deleting: obj.GetDeletionTimestamp() != nil,
		}
	}
}

// connect sets the owners and children of the nodes, and adds the owners that are in no cache.
func (g *graph) connect() {
	for _, n := range slices.Collect(maps.Values(g.nodes)) {
		namespace, _, ok := strings.Cut(n.name, "/")
		if !ok {
			namespace = ""
		}
		for _, ref := range n.refs {
			owner := g.nodes[ref.UID]
			if owner == nil {
				owner = &node{
					kind: kindText(schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind)),
					name: joinName(types.NamespacedName{Namespace: namespace, Name: ref.Name}),
				}
				g.nodes[ref.UID] = owner
			}
			if k := len(owner.children); k > 0 && owner.children[k-1] == n {
				continue // it is referred to twice
			}
			owner.children = append(owner.children, n)
			n.owners = append(n.owners, owner)
			if ref.Controller != nil && *ref.Controller {
				last := len(n.owners) - 1
				n.owners[0], n.owners[last] = n.owners[last], n.owners[0]
			}
		}
	}
}

// roots returns the roots of the trees: the objects without owners that have dependents or are being deleted, and one
// object of each cycle that has no such root.
func (g *graph) roots() (roots []*node) {
	all := slices.SortedFunc(maps.Values(g.nodes), compareNodes)
	for _, n := range all {
		if len(n.owners) == 0 && (len(n.children) > 0 || n.deleting) {
			roots = append(roots, n)
			n.reach()
		}
	}
	for _, n := range all {
		if n.reached || len(n.owners) == 0 {
			continue
		}
		seen := map[*node]bool{}
		for !seen[n] { // no owner of n is reached, so each has an owner
			seen[n] = true
			n = n.owners[0]
		}
		n.cycle = true
		roots = append(roots, n)
		n.reach()
	}
	return roots
}

// reach marks a node and all below it.
func (n *node) reach() {
	for left := []*node{n}; len(left) > 0; {
		last := left[len(left)-1]
		left = left[:len(left)-1]
		if !last.reached {
			last.reached = true
			left = append(left, last.children...)
		}
	}
}

// branch is a node of a tree with its place there.
type branch struct {
	*node
	place *Owned
	above *branch // nil for the root
}

// below reports whether a node is the branch, or one above it.
func (b *branch) below(n *node) bool {
	for ; b != nil; b = b.above {
		if b.node == n {
			return true
		}
	}
	return false
}

// tree returns the tree of a root with at most so many objects, level by level. It has the nodes of a path from the root
// in any case. An object that is there already has no dependents in the second place.
func (n *node) tree(rows int, path map[*node]bool) *Owned {
	root := n.owned(0)
	root.Cycle = n.cycle
	rows = max(rows-max(len(path), 1), 0)
	shown := map[*node]bool{n: true}
	for left := []*branch{{n, &root, nil}}; len(left) > 0; left = left[1:] {
		b := left[0]
		next := func(child *node) bool { return path[child] && !shown[child] } // the path goes on there
		children := b.sorted(next)
		free := 0
		if len(children) > 0 && next(children[0]) {
			free = 1
		}
		count := min(len(children), rows+free)
		if b.place.Depth == maxDepth {
			count, free = 0, 0
		}
		rows -= count - free
		b.place.Below, b.place.More = make([]Owned, count), len(children)-count
		for i, child := range children[:count] {
			at := &b.place.Below[i]
			*at = child.owned(b.place.Depth + 1)
			if at.Again = shown[child]; at.Again {
				at.Cycle = b.below(child)
				continue
			}
			shown[child] = true
			left = append(left, &branch{child, at, b})
		}
	}
	return &root
}

// sorted returns the children by their names, some of them first.
func (n *node) sorted(first func(*node) bool) []*node {
	return slices.SortedFunc(slices.Values(n.children), func(a, b *node) int {
		switch {
		case first(a) == first(b):
			return compareNodes(a, b)
		case first(a):
			return -1
		}
		return 1
	})
}

// owned describes a node at a depth. The node keeps the description, because it may be below many owners.
func (n *node) owned(depth int) Owned {
	if n.shown == nil {
		n.shown = new(n.describe())
	}
	v := *n.shown
	v.Depth = depth
	return v
}

// describe describes a node.
func (n *node) describe() Owned {
	v := Owned{Kind: n.kind, Name: n.name, Absent: n.state == nil, Health: Health{State: "unknown"}}
	if len(n.owners) > 1 {
		v.Owners = len(n.owners)
	}
	if n.state == nil {
		return v
	}
	obj := n.state.Object()
	if at := obj.GetDeletionTimestamp(); at != nil {
		v.Deleting = at.Time
		v.Finalizers, v.MoreFinalizers = finalizersOf(obj)
	}
	if content, ok := objectdiff.Content(obj); ok {
		v.Health = healthOf(&unstructured.Unstructured{Object: content})
	}
	return v
}

// rows is how many objects a tree has.
func (v *Owned) rows() int {
	if v == nil {
		return 0
	}
	n := 1
	for i := range v.Below {
		n += v.Below[i].rows()
	}
	return n
}

// Caches are the informers of the manager.
type Caches struct {
	Kinds []CachedKind `json:"kinds"`
	More  int          `json:"more,omitempty"`
	// Unknown says why there are none, if the cache cannot be looked at.
	Unknown string `json:"unknown,omitempty"`
}

// CachedKind is an informer.
type CachedKind struct {
	Kind       string    `json:"kind"`
	Version    string    `json:"version"`
	Form       string    `json:"form"` // typed, unstructured or metadata
	Namespaces []string  `json:"namespaces,omitempty"`
	Objects    int       `json:"objects"`
	Bytes      int       `json:"bytes"`
	Synced     bool      `json:"synced"`
	Watches    int       `json:"watches"`
	Contact    time.Time `json:"contact,omitzero"`
	Indexes    []string  `json:"indexes,omitempty"`
	Handlers   int       `json:"handlers"`
	Events     int64     `json:"events"`
	Relists    int64     `json:"relists"`
	LiveReads  int64     `json:"liveReads"`
	Failing    string    `json:"failing,omitempty"`
	Readers    []Reader  `json:"readers,omitempty"`
	// Unused is whether no controller watches the kind and no reconcile has read it.
	Unused bool `json:"unused,omitempty"`
}

// Reader is a controller with how often its reconciles have read a kind, from the cache or from the server.
type Reader struct {
	Controller string `json:"controller"`
	Reads      uint64 `json:"reads"`
}

// caches returns the informers.
func (c *Console) caches() Caches {
	v := Caches{Kinds: []CachedKind{}}
	cache := observe.FindCache(c.manager.GetCache())
	if cache == nil {
		v.Unknown = "The manager has a cache of its own, which cannot be looked at."
		return v
	}
	controllers := c.recorder.Controllers()
	stats := make([]observe.Stats, len(controllers))
	for i, controller := range controllers {
		stats[i] = controller.Stats()
	}
	for _, kind := range cache.ObservedKinds() {
		s := kind.Summary()
		k := CachedKind{
			Kind: kindText(s.GVK), Version: s.GVK.Version, Form: s.Form, Namespaces: s.Namespaces, Objects: s.Objects, Bytes: s.Bytes,
			Synced: s.Synced, Watches: s.Watches, Contact: s.Contact, Indexes: s.Indexes, Handlers: s.Handlers,
			Events: s.Events, Relists: s.Relists, LiveReads: s.LiveReads, Failing: s.Failing,
		}
		for i, controller := range controllers {
			if n := stats[i].Reads[s.GVK]; n > 0 {
				k.Readers = append(k.Readers, Reader{controller.ControllerName(), n})
			}
		}
		k.Unused = s.Handlers == 0 && len(k.Readers) == 0
		v.Kinds = append(v.Kinds, k)
	}
	slices.SortFunc(v.Kinds, func(a, b CachedKind) int { return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Kind, b.Kind)) })
	cut(&v.Kinds, maxRows, &v.More)
	return v
}

// Warnings are the warnings of Options.Development, and hot loops.
type Warnings struct {
	Warnings []Warning `json:"warnings"` // the newest first
	More     int       `json:"more,omitempty"`
}

// Warning is a warning.
type Warning struct {
	Time    time.Time `json:"time"`
	Check   string    `json:"check"`
	Kind    string    `json:"kind,omitempty"`
	Object  string    `json:"object,omitempty"`
	Field   string    `json:"field,omitempty"`
	Writer  string    `json:"writer,omitempty"`
	Message string    `json:"message"`
	Docs    string    `json:"docs"`
}

func (c *Console) warnings() Warnings {
	v := Warnings{Warnings: []Warning{}}
	all := c.recorder.Warnings()
	cut(&all, maxRows, &v.More)
	for _, w := range all {
		v.Warnings = append(v.Warnings, Warning{
			w.At, w.Check, kindText(w.GVK), joinName(w.Object), w.Field, w.Writer, w.Message, w.Docs(),
		})
	}
	return v
}
