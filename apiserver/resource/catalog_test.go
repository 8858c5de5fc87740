package resource

import (
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

func served(group, version, name string) *Resource {
	return &Resource{GroupVersion: schema.GroupVersion{Group: group, Version: version}, Name: name}
}

// listing is everything in a snapshot, in its order.
func listing(s *Snapshot) string {
	var all []string
	for _, g := range s.Groups() {
		for _, v := range g.Versions {
			for _, r := range v.Resources {
				all = append(all, v.String()+"/"+r.Name)
			}
		}
	}
	return strings.Join(all, " ")
}

func TestCatalogOrder(t *testing.T) {
	var c Catalog
	c.Set("custom", served("example.com", "v1beta1", "b"), served("example.com", "v2", "b"), served("example.com", "v10", "b"), served("example.com", "v1alpha1", "b"))
	c.Set("built-in", served("rbac.authorization.k8s.io", "v1", "roles"), served("apps", "v1", "deployments"),
		served("", "v1", "pods"), served("", "v1", "configmaps"))
	want := "v1/configmaps v1/pods apps/v1/deployments rbac.authorization.k8s.io/v1/roles " +
		"example.com/v10/b example.com/v2/b example.com/v1beta1/b example.com/v1alpha1/b"
	if got := listing(c.Snapshot()); got != want {
		t.Errorf("listed\n%s, want\n%s", got, want)
	}
}

func TestSetReplacesOneSource(t *testing.T) {
	var c Catalog
	if s := c.Snapshot(); len(s.Groups()) != 0 || s.Generation != 0 {
		t.Errorf("a new catalog has %v", s)
	}
	c.Set("a", served("g", "v1", "as"))
	c.Set("b", served("g", "v1", "bs"))
	before := c.Snapshot()
	c.Set("a", served("g", "v2", "cs"))
	c.Set("b")
	after := c.Snapshot()
	if got := listing(after); got != "g/v2/cs" {
		t.Errorf("listed %q after the change", got)
	}
	if got := listing(before); got != "g/v1/as g/v1/bs" {
		t.Errorf("the older snapshot changed to %q", got)
	}
	if after.Generation != before.Generation+2 {
		t.Errorf("generations %d and %d; want two changes between", before.Generation, after.Generation)
	}
	if _, ok := after.Lookup(schema.GroupVersionResource{Group: "g", Version: "v1", Resource: "as"}); ok {
		t.Error("what was replaced can still be found")
	}
	if r, ok := after.Lookup(schema.GroupVersionResource{Group: "g", Version: "v2", Resource: "cs"}); !ok || r.Name != "cs" {
		t.Errorf("found %v, %v", r, ok)
	}
}

func TestManyWriters(t *testing.T) {
	var c Catalog
	var writers sync.WaitGroup
	for _, source := range []string{"a", "b", "c", "d"} {
		writers.Go(func() {
			for range 100 {
				c.Set(source, served("g", "v1", source))
			}
		})
	}
	writers.Wait()
	if got := listing(c.Snapshot()); got != "g/v1/a g/v1/b g/v1/c g/v1/d" || c.Snapshot().Generation != 400 {
		t.Errorf("listed %q at generation %d", got, c.Snapshot().Generation)
	}
}

// TestStaleVersions checks that a stale version keeps its last resources until its source is set again.
func TestStaleVersions(t *testing.T) {
	var c Catalog
	gv := schema.GroupVersion{Group: "g", Version: "v1"}
	check := func(stale, resources int) {
		t.Helper()
		var got []*Version
		for _, g := range c.Snapshot().Groups() {
			got = append(got, g.Versions...)
		}
		if stale+resources == 0 {
			if len(got) != 0 {
				t.Errorf("there are %v", got)
			}
			return
		}
		if len(got) != 1 || got[0].GroupVersion != gv || got[0].Stale != (stale > 0) || len(got[0].Resources) != resources || stale > 0 && !got[0].Remote() {
			t.Errorf("there are %+v", got)
		}
	}
	c.SetStale("a", gv)
	check(1, 0)
	before := c.Snapshot()
	if c.SetStale("a", gv); c.Snapshot() != before {
		t.Error("the catalog changed though nothing did")
	}
	c.Set("a", served("g", "v1", "as"))
	check(0, 1)
	c.SetStale("a", gv)
	check(1, 1)
	c.Set("a")
	check(0, 0)
}

// lazy is a [Lazy] that makes resources of names.
type lazy struct {
	names []schema.GroupVersionResource
	made  map[schema.GroupVersionResource]*Resource
}

func (l *lazy) Names() []schema.GroupVersionResource { return l.names }
func (l *lazy) Made() iter.Seq[*Resource]            { return maps.Values(l.made) }
func (l *lazy) Resource(name schema.GroupVersionResource) *Resource {
	if !slices.Contains(l.names, name) {
		return nil
	}
	if l.made[name] == nil {
		l.made[name] = served(name.Group, name.Version, name.Resource)
	}
	return l.made[name]
}

// TestLazyResources checks that each method of a snapshot makes the resources that it returns, and no others.
func TestLazyResources(t *testing.T) {
	var c Catalog
	l := &lazy{made: map[schema.GroupVersionResource]*Resource{}, names: []schema.GroupVersionResource{
		{Version: "v1", Resource: "pods"}, {Version: "v1", Resource: "nodes"},
		{Group: "apps", Version: "v1", Resource: "deployments"}, {Group: "g", Version: "v1", Resource: "as"}}}
	c.SetLazy("built-in", l)
	c.Set("custom", served("g", "v1", "bs"))
	s := c.Snapshot()
	for _, step := range []struct {
		name string
		call func() int
		want int // resources
		made int // of the lazy ones
	}{
		{"the resources that were made", func() int { return len(slices.Collect(s.Made())) }, 1, 0},
		{"groups", func() int { return len(s.Versions()) }, 3, 0},
		{"local versions", func() int {
			return len(slices.DeleteFunc(slices.Clone(s.Versions()), func(g *Group) bool { return g.Versions[0].Remote() }))
		}, 3, 0},
		{"bs", func() int { _, ok := s.Lookup(l.names[3].GroupVersion().WithResource("bs")); return found(ok) }, 1, 0},
		{"nodes", func() int { _, ok := s.Lookup(l.names[1]); return found(ok) }, 1, 1},
		{"missing", func() int { _, ok := s.Lookup(l.names[3].GroupVersion().WithResource("cs")); return found(ok) }, 0, 1},
		{"a group", func() int { return len(slices.Collect(s.Group("g"))) }, 2, 2},
		{"the resources that were made", func() int { return len(slices.Collect(s.Made())) }, 3, 2},
		{"all", func() int { return len(strings.Fields(listing(s))) }, 5, 4},
	} {
		if got := step.call(); got != step.want || len(l.made) != step.made {
			t.Errorf("%s: %d, and %d lazy resources were made; want %d and %d", step.name, got, len(l.made), step.want, step.made)
		}
	}
	if got, want := listing(s), "v1/nodes v1/pods apps/v1/deployments g/v1/as g/v1/bs"; got != want {
		t.Errorf("listed %q, want %q", got, want)
	}
}

func found(ok bool) int {
	if ok {
		return 1
	}
	return 0
}
