package resource

import (
	"cmp"
	"iter"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
)

// Catalog holds the currently served resources. The zero value is empty and ready to use.
type Catalog struct {
	mu      sync.Mutex // serializes Set
	sources map[string]contribution
	changed []func()
	current atomic.Pointer[Snapshot]
}

// contribution is the resources of one source.
type contribution struct {
	resources []*Resource
	lazy      Lazy                 // instead of resources, or nil
	stale     *schema.GroupVersion // see SetStale
}

// Lazy has resources that it makes at their first use. It is safe for concurrent use.
type Lazy interface {
	// Names returns the names of all resources. The caller must not change the slice.
	Names() []schema.GroupVersionResource
	// Resource returns the resource of a name, or nil. All calls return the same resource.
	Resource(schema.GroupVersionResource) *Resource
	// Made returns the resources that have been made.
	Made() iter.Seq[*Resource]
}

// Snapshot is an immutable state of a catalog.
type Snapshot struct {
	// Generation rises by one with every change of the catalog.
	Generation uint64

	sources          map[string]contribution
	byPath           func() map[schema.GroupVersionResource]*Resource // without lazy resources
	groups, versions func() []*Group
	replaced         chan struct{}
}

// Group is an API group with its versions, starting with the preferred one.
type Group struct {
	Name     string
	Versions []*Version
}

// Version is one version of a group with its resources, ordered by name.
type Version struct {
	schema.GroupVersion
	Resources []*Resource
	// Stale is set if the extension API server of the version does not answer. Resources then has the last known
	// resources.
	Stale bool

	local bool // the server itself serves it
}

// Remote reports whether an extension API server serves the version.
func (v *Version) Remote() bool { return v.Stale || !v.local }

// Set replaces the resources of a source. Without resources, it removes the source. The change is atomic for readers.
func (c *Catalog) Set(source string, resources ...*Resource) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(resources) == 0 {
		delete(c.sources, source)
	} else {
		c.set(source, contribution{resources: resources})
	}
	c.rebuild()
}

// SetLazy replaces the resources of a source with resources that are made at their first use.
func (c *Catalog) SetLazy(source string, l Lazy) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.set(source, contribution{lazy: l})
	c.rebuild()
}

// SetStale marks a group version as stale until the next Set of the source. It is for an extension API server that does
// not answer. The resources of the source remain.
func (c *Catalog) SetStale(source string, gv schema.GroupVersion) {
	c.mu.Lock()
	defer c.mu.Unlock()
	was := c.sources[source]
	if was.stale != nil && *was.stale == gv {
		return
	}
	c.set(source, contribution{resources: was.resources, stale: &gv})
	c.rebuild()
}

// set replaces the contribution of a source. The caller holds the lock.
func (c *Catalog) set(source string, s contribution) {
	if c.sources == nil {
		c.sources = map[string]contribution{}
	}
	c.sources[source] = s
}

// rebuild replaces the snapshot. The caller holds the lock.
func (c *Catalog) rebuild() {
	old := c.Snapshot()
	c.current.Store(newSnapshot(old.Generation+1, maps.Clone(c.sources)))
	if old.replaced != nil {
		close(old.replaced)
	}
	for _, f := range c.changed {
		f()
	}
}

// OnChange makes the catalog call f after each change, before Set returns. Callers use f to drop data about removed
// resources. f must not change the catalog.
func (c *Catalog) OnChange(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.changed = append(c.changed, f)
}

// Snapshot returns the current state.
func (c *Catalog) Snapshot() *Snapshot {
	if s := c.current.Load(); s != nil {
		return s
	}
	return empty
}

// empty is the state of a new catalog.
var empty = func() *Snapshot {
	s := newSnapshot(0, nil)
	s.replaced = nil
	return s
}()

// newSnapshot returns the snapshot for the contributions of all sources. What it contains is sorted at the first use, so
// many changes in a row are cheap.
func newSnapshot(generation uint64, sources map[string]contribution) *Snapshot {
	s := &Snapshot{Generation: generation, sources: sources, replaced: make(chan struct{})}
	s.byPath = sync.OnceValue(s.index)
	s.groups = sync.OnceValue(func() []*Group { return s.sorted(true) })
	s.versions = sync.OnceValue(func() []*Group { return s.sorted(false) })
	return s
}

// Lookup returns the served resource with the given name.
func (s *Snapshot) Lookup(gvr schema.GroupVersionResource) (*Resource, bool) {
	if r, ok := s.byPath()[gvr]; ok {
		return r, true
	}
	for _, source := range s.sources {
		if source.lazy != nil {
			if r := source.lazy.Resource(gvr); r != nil {
				return r, true
			}
		}
	}
	return nil, false
}

// Groups returns the groups with all resources in the order of discovery: the core group, the other built-in groups by
// priority, then all other groups by name. The caller must not change them.
func (s *Snapshot) Groups() []*Group { return s.groups() }

// Versions returns the groups in the order of discovery, and leaves out the resources of their versions, so that none is
// made. The caller must not change them.
func (s *Snapshot) Versions() []*Group { return s.versions() }

// Group returns the resources of a group, in no order.
func (s *Snapshot) Group(name string) iter.Seq[*Resource] {
	return func(yield func(*Resource) bool) {
		for _, source := range s.sources {
			for r := range source.all(func(gv schema.GroupVersion) bool { return gv.Group == name }) {
				if !yield(r) {
					return
				}
			}
		}
	}
}

// Made returns the resources that have been made, in no order. All but lazy resources always are.
func (s *Snapshot) Made() iter.Seq[*Resource] {
	return func(yield func(*Resource) bool) {
		for _, source := range s.sources {
			made := slices.Values(source.resources)
			if source.lazy != nil {
				made = source.lazy.Made()
			}
			for r := range made {
				if !yield(r) {
					return
				}
			}
		}
	}
}

// Replaced returns a channel that is closed when the catalog has a newer snapshot. The channel of the empty catalog's
// first snapshot is nil.
func (s *Snapshot) Replaced() <-chan struct{} { return s.replaced }

// all returns the resources of the source in the selected group versions, and makes the lazy ones.
func (c contribution) all(selected func(schema.GroupVersion) bool) iter.Seq[*Resource] {
	return func(yield func(*Resource) bool) {
		for _, r := range c.resources {
			if selected(r.GroupVersion) && !yield(r) {
				return
			}
		}
		if c.lazy == nil {
			return
		}
		for _, gvr := range c.lazy.Names() {
			if selected(gvr.GroupVersion()) && !yield(c.lazy.Resource(gvr)) {
				return
			}
		}
	}
}

// index returns the resources that are not lazy, by their names.
func (s *Snapshot) index() map[schema.GroupVersionResource]*Resource {
	all := map[schema.GroupVersionResource]*Resource{}
	for _, source := range s.sources {
		for _, r := range source.resources {
			all[r.GroupVersionResource()] = r
		}
	}
	return all
}

// sorted returns the groups in the order of discovery.
func (s *Snapshot) sorted(withResources bool) (sorted []*Group) {
	groups := map[string]*Group{}
	versions := map[schema.GroupVersion]*Version{}
	versionOf := func(gv schema.GroupVersion) *Version {
		v := versions[gv]
		if v == nil {
			v = &Version{GroupVersion: gv}
			versions[gv] = v
			g := groups[gv.Group]
			if g == nil {
				g = &Group{Name: gv.Group}
				groups[g.Name] = g
				sorted = append(sorted, g)
			}
			g.Versions = append(g.Versions, v)
		}
		return v
	}
	for _, source := range s.sources {
		for _, r := range source.resources {
			v := versionOf(r.GroupVersion)
			v.local = v.local || !r.Remote
			if withResources {
				v.Resources = append(v.Resources, r)
			}
		}
		if source.lazy != nil {
			for _, gvr := range source.lazy.Names() {
				v := versionOf(gvr.GroupVersion())
				v.local = true
				if withResources {
					v.Resources = append(v.Resources, source.lazy.Resource(gvr))
				}
			}
		}
		if source.stale != nil {
			versionOf(*source.stale).Stale = true
		}
	}
	slices.SortFunc(sorted, compareGroups)
	for _, g := range sorted {
		slices.SortFunc(g.Versions, func(a, b *Version) int {
			return version.CompareKubeAwareVersionStrings(b.Version, a.Version)
		})
		for _, v := range g.Versions {
			slices.SortFunc(v.Resources, func(a, b *Resource) int { return strings.Compare(a.Name, b.Name) })
		}
	}
	return sorted
}

// compareGroups orders the core group first, then the other built-in groups by priority, then all other groups by name.
func compareGroups(a, b *Group) int {
	return cmp.Or(cmp.Compare(b.priority(), a.priority()), strings.Compare(a.Name, b.Name))
}

// priority returns the highest priority of the group's versions.
func (g *Group) priority() int32 {
	if g.Name == "" {
		return math.MaxInt32
	}
	highest := int32(0)
	for _, v := range g.Versions {
		p, _ := PriorityOf(v.GroupVersion)
		highest = max(highest, p.Group)
	}
	return highest
}
