package console

import (
	"cmp"
	"slices"
	"time"

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
	Trees     []Owned `json:"trees"`
	// More is how many trees are not shown, and Unread how many objects are not looked at.
	More   int `json:"more,omitempty"`
	Unread int `json:"unread,omitempty"`
}

// Owned is an object of a tree. The objects of a tree are in the order of its branches.
type Owned struct {
	Kind       string      `json:"kind"`
	Name       string      `json:"name"`
	Depth      int         `json:"depth"`
	Health     Health      `json:"health"`
	Deleting   time.Time   `json:"deleting,omitzero"`
	Finalizers []Finalizer `json:"finalizers,omitempty"`
	// Absent is whether only the references of its dependents say that it exists.
	Absent bool    `json:"absent,omitempty"`
	Below  []Owned `json:"dependents,omitempty"`
}

const (
	maxTreeObjects = 20_000
	maxTrees       = 200
	maxBelow       = 200
)

// node is an object of a tree.
type node struct {
	obj      client.Object
	kind     string
	name     string
	children []*node
	owned    bool
	absent   bool
}

// owners returns the trees of a namespace, or of all.
func (c *Console) owners(namespace string) Owners {
	v := Owners{Namespace: namespace, Trees: []Owned{}}
	nodes, unread := c.nodes(namespace)
	v.Unread = unread
	var roots []*node
	for _, n := range nodes {
		if !n.owned && (len(n.children) > 0 || n.obj != nil && n.obj.GetDeletionTimestamp() != nil) {
			roots = append(roots, n)
		}
	}
	slices.SortFunc(roots, compareNodes)
	if len(roots) > maxTrees {
		roots, v.More = roots[:maxTrees], len(roots)-maxTrees
	}
	for _, root := range roots {
		v.Trees = append(v.Trees, root.tree(0))
	}
	return v
}

// treeOf returns the tree that an object is in, or nil if it has neither owners nor dependents.
func (c *Console) treeOf(uid types.UID, namespace string) *Owned {
	nodes, _ := c.nodes(namespace)
	n := nodes[uid]
	if n == nil {
		return nil
	}
	for range 32 {
		owner := (*node)(nil)
		if n.obj != nil {
			for _, ref := range n.obj.GetOwnerReferences() {
				if owner == nil || ref.Controller != nil && *ref.Controller {
					owner = nodes[ref.UID]
				}
			}
		}
		if owner == nil {
			break
		}
		n = owner
	}
	if len(n.children) == 0 && n.obj != nil && len(n.obj.GetOwnerReferences()) == 0 {
		return nil
	}
	tree := n.tree(0)
	return &tree
}

func compareNodes(a, b *node) int {
	return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.kind, b.kind))
}

// nodes returns the objects of the caches by their UIDs, and how many were not looked at.
func (c *Console) nodes(namespace string) (nodes map[types.UID]*node, unread int) {
	nodes = map[types.UID]*node{}
	cache := observe.FindCache(c.manager.GetCache())
	if cache == nil {
		return nodes, 0
	}
	left := maxTreeObjects
	for _, kind := range cache.ObservedKinds() {
		states, total := kind.States(namespace, left)
		left -= len(states)
		unread += total - len(states)
		for _, state := range states {
			obj := state.Object()
			if nodes[obj.GetUID()] == nil {
				nodes[obj.GetUID()] = &node{obj: obj, kind: kindOf(obj), name: joinName(client.ObjectKeyFromObject(obj))}
			}
		}
	}
	for uid, n := range nodes {
		if n.obj == nil {
			continue
		}
		for _, ref := range n.obj.GetOwnerReferences() {
			owner := nodes[ref.UID]
			if owner == nil {
				owner = &node{kind: kindText(schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind)), name: joinName(types.NamespacedName{Namespace: n.obj.GetNamespace(), Name: ref.Name}), absent: true}
				nodes[ref.UID] = owner
			}
			if uid != ref.UID {
				owner.children = append(owner.children, n)
				n.owned = true
			}
		}
	}
	return nodes, unread
}

// tree returns the tree of a node. A cycle of owners ends at a depth that no tree has.
func (n *node) tree(depth int) Owned {
	v := Owned{Kind: n.kind, Name: n.name, Depth: depth, Absent: n.absent, Health: Health{State: "unknown"}}
	if n.obj != nil {
		if at := n.obj.GetDeletionTimestamp(); at != nil {
			v.Deleting, v.Finalizers = at.Time, finalizersOf(n.obj)
		}
		if content, ok := objectdiff.Content(n.obj); ok {
			v.Health = healthOf(&unstructured.Unstructured{Object: content})
		}
	}
	if depth > 16 {
		return v
	}
	slices.SortFunc(n.children, compareNodes)
	for _, child := range n.children[:min(len(n.children), maxBelow)] {
		v.Below = append(v.Below, child.tree(depth+1))
	}
	return v
}

// Caches are the informers of the manager.
type Caches struct {
	Kinds []CachedKind `json:"kinds"`
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
	return v
}

// Warnings are the warnings of Options.Development, and hot loops.
type Warnings struct {
	Warnings []Warning `json:"warnings"`
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
	for _, w := range c.recorder.Warnings() {
		v.Warnings = append(v.Warnings, Warning{
			w.At, w.Check, kindText(w.GVK), joinName(w.Object), w.Field, w.Writer, w.Message, w.Docs(),
		})
	}
	return v
}
