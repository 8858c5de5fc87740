package apiutil

import (
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/restmapper"
)

// snapshot is the resources that a mapper has discovered. It is immutable.
type snapshot struct {
	meta.RESTMapper // of groups

	groups []*group // in the server's order of preference, if all
	all    bool     // all groups were discovered

	mappings sync.Map // GroupVersionKind → *meta.RESTMapping, a cache
}

// group is what was discovered of an API group.
type group struct {
	name      string
	preferred string
	// versions are all versions in the server's order of preference, if complete; otherwise those
	// that were queried.
	versions []string
	complete bool
	// resources are those of each version that was queried.
	resources map[string][]metav1.APIResource
}

func groupOf(doc *metav1.APIGroup) *group {
	g := &group{name: doc.Name, preferred: doc.PreferredVersion.Version, complete: true,
		resources: map[string][]metav1.APIResource{}}
	for _, v := range doc.Versions {
		g.versions = append(g.versions, v.Version)
	}
	return g
}

// clone returns a copy that can be extended; of a nil group, an empty one.
func (g *group) clone(name string) *group {
	if g == nil {
		return &group{name: name, resources: map[string][]metav1.APIResource{}}
	}
	c := *g
	c.resources = maps.Clone(g.resources)
	return &c
}

// forMapper returns the group in the type of client-go's mapper.
func (g *group) forMapper() *restmapper.APIGroupResources {
	versions := g.versions
	if !g.complete {
		// The server's order is not known: newest and most stable first.
		versions = slices.SortedFunc(maps.Keys(g.resources), func(a, b string) int {
			return version.CompareKubeAwareVersionStrings(b, a)
		})
	}
	doc := metav1.APIGroup{Name: g.name, PreferredVersion: metav1.GroupVersionForDiscovery{Version: g.preferred}}
	for _, v := range versions {
		gv := schema.GroupVersion{Group: g.name, Version: v}
		doc.Versions = append(doc.Versions, metav1.GroupVersionForDiscovery{GroupVersion: gv.String(), Version: v})
	}
	return &restmapper.APIGroupResources{Group: doc, VersionedResources: g.resources}
}

func newSnapshot(groups []*group, all bool) *snapshot {
	docs := make([]*restmapper.APIGroupResources, len(groups))
	for i, g := range groups {
		docs[i] = g.forMapper()
	}
	return &snapshot{RESTMapper: restmapper.NewDiscoveryRESTMapper(docs), groups: groups, all: all}
}

func (s *snapshot) group(name string) *group {
	i := slices.IndexFunc(s.groups, func(g *group) bool { return g.name == name })
	if i < 0 {
		return nil
	}
	return s.groups[i]
}

// with returns a snapshot in which g replaces the group of its name.
func (s *snapshot) with(g *group) *snapshot {
	groups := slices.Clone(s.groups)
	if i := slices.IndexFunc(groups, func(o *group) bool { return o.name == g.name }); i >= 0 {
		groups[i] = g
	} else {
		groups = append(groups, g)
	}
	return newSnapshot(groups, s.all)
}

// covers reports whether what the query needs was discovered.
func (s *snapshot) covers(q query) bool {
	if q.all {
		return s.all
	}
	g := s.group(q.group)
	if g == nil {
		return false
	}
	if q.version == "" {
		return g.complete
	}
	_, ok := g.resources[q.version]
	return ok
}

// mapping returns the mapping of a kind. It caches the result, as programs look up a few kinds
// often.
func (s *snapshot) mapping(gvk schema.GroupVersionKind) (*meta.RESTMapping, error) {
	if m, ok := s.mappings.Load(gvk); ok {
		return m.(*meta.RESTMapping), nil
	}
	m, err := s.RESTMapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err == nil {
		s.mappings.Store(gvk, m)
	}
	return m, err
}
