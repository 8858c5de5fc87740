package resource

import (
	"cmp"
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
	stale     *schema.GroupVersion // see SetStale
}

// Snapshot is an immutable state of a catalog.
type Snapshot struct {
	// Generation rises by one with every change of the catalog.
	Generation uint64
	// Groups are in the order of discovery: the core group, the other built-in groups by priority, then all other
	// groups by name.
	Groups []*Group

	byPath   map[schema.GroupVersionResource]*Resource
	replaced chan struct{}
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
}

// Remote reports whether an extension API server serves the version.
func (v *Version) Remote() bool { return v.Stale || v.Resources[0].Remote }

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

// SetStale marks a group version as stale until the next Set of the source. It is for an extension API server that does
// not answer. The resources of the source remain.
func (c *Catalog) SetStale(source string, gv schema.GroupVersion) {
	c.mu.Lock()
	defer c.mu.Unlock()
	was := c.sources[source]
	if was.stale != nil && *was.stale == gv {
		return
	}
	c.set(source, contribution{was.resources, &gv})
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
	c.current.Store(build(old.Generation+1, c.sources))
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
	return &Snapshot{}
}

// Replaced returns a channel that is closed when the catalog has a newer snapshot. The channel of the empty catalog's
// first snapshot is nil.
func (s *Snapshot) Replaced() <-chan struct{} { return s.replaced }

// Lookup returns the served resource with the given name.
func (s *Snapshot) Lookup(gvr schema.GroupVersionResource) (*Resource, bool) {
	r, ok := s.byPath[gvr]
	return r, ok
}

// build returns the snapshot for the contributions of all sources.
func build(generation uint64, sources map[string]contribution) *Snapshot {
	s := &Snapshot{Generation: generation, byPath: map[schema.GroupVersionResource]*Resource{}, replaced: make(chan struct{})}
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
				s.Groups = append(s.Groups, g)
			}
			g.Versions = append(g.Versions, v)
		}
		return v
	}
	for _, source := range sources {
		for _, r := range source.resources {
			s.byPath[r.GroupVersionResource()] = r
			v := versionOf(r.GroupVersion)
			v.Resources = append(v.Resources, r)
		}
		if source.stale != nil {
			versionOf(*source.stale).Stale = true
		}
	}
	slices.SortFunc(s.Groups, compareGroups)
	for _, g := range s.Groups {
		slices.SortFunc(g.Versions, func(a, b *Version) int {
			return version.CompareKubeAwareVersionStrings(b.Version, a.Version)
		})
		for _, v := range g.Versions {
			slices.SortFunc(v.Resources, func(a, b *Resource) int { return strings.Compare(a.Name, b.Name) })
		}
	}
	return s
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
