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

	groups     []*group // in the server's order of preference, if discovered
	discovered bool     // groups has the server's groups
	aggregated bool     // discovery returned the resources as well
	all        bool     // the resources of all groups were discovered

	mappings sync.Map // GroupVersionKind → *meta.RESTMapping, a cache
}

// group is what was discovered of an API group.
type group struct {
	name      string
	preferred string
	// versions are all versions in the server's order of preference, if ordered.
	versions []string
	ordered  bool
	// complete is set when all versions were queried.
	complete bool
	// resources are the resources of each queried version, and failures the errors of queries.
	resources map[string][]metav1.APIResource
	failures  map[string]error
}

// newGroup returns the group that a discovery document describes, without resources.
func newGroup(doc *metav1.APIGroup) *group {
	g := &group{name: doc.Name, preferred: doc.PreferredVersion.Version, ordered: true,
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
	c.resources, c.failures = maps.Clone(g.resources), maps.Clone(g.failures)
	return &c
}

// setResources sets the resources of a version.
func (g *group) setResources(version string, resources []metav1.APIResource) {
	g.resources[version] = resources
	delete(g.failures, version)
}

// setFailure sets the error of the discovery of a version. Its resources that are known already are
// kept.
func (g *group) setFailure(version string, err error) {
	if g.failures == nil {
		g.failures = map[string]error{}
	}
	g.failures[version] = err
}

// addStale adds a version that the server lists among the others without its resources. If the
// group was known before, the version's resources and the order of the versions are taken from
// there.
func (g *group) addStale(version string, err error, before *group) {
	g.setFailure(version, err)
	if before != nil && before.resources[version] != nil {
		g.resources[version] = before.resources[version]
	}
	g.versions = append(g.versions, version)
	if before != nil && before.ordered && slices.Contains(before.versions, version) {
		place := func(v string) int { return slices.Index(before.versions, v) }
		slices.SortStableFunc(g.versions, func(a, b string) int { return place(a) - place(b) })
	} else {
		g.ordered = false
	}
}

// forMapper returns the group as the type that client-go's mapper is made from.
func (g *group) forMapper() *restmapper.APIGroupResources {
	versions := g.versions
	if !g.ordered {
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

func newSnapshot(groups []*group) *snapshot {
	docs := make([]*restmapper.APIGroupResources, len(groups))
	for i, g := range groups {
		docs[i] = g.forMapper()
	}
	return &snapshot{RESTMapper: restmapper.NewDiscoveryRESTMapper(docs), groups: groups}
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
	next := newSnapshot(groups)
	next.discovered, next.aggregated, next.all = s.discovered, s.aggregated, s.all
	return next
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

// failure returns the errors of the discovery of what the query needs, or nil.
func (s *snapshot) failure(q query) error {
	failed := ErrResourceDiscoveryFailed{}
	for _, g := range s.groups {
		for v, err := range g.failures {
			if q.all || g.name == q.group && (q.version == "" || q.version == v) {
				failed[schema.GroupVersion{Group: g.name, Version: v}] = err
			}
		}
	}
	return failed.orNil()
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
