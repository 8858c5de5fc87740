package discovery

import (
	"crypto/sha512"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
	"sync"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"flyball.dev/apiserver/resource"
)

// documents are the discovery documents of one snapshot of the catalog.
type documents struct {
	generation uint64
	objects    map[string]runtime.Object // by path
	aggregated map[string]*aggregated    // of /api and /apis
}

// aggregated is the aggregated discovery document of a root.
type aggregated struct {
	list *apidiscoveryv2.APIGroupDiscoveryList
	etag func() string
}

// newDocuments builds the documents of a snapshot.
func newDocuments(s *resource.Snapshot) *documents {
	groups := &metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"},
		Groups: []metav1.APIGroup{}}
	d := &documents{
		generation: s.Generation,
		objects:    map[string]runtime.Object{"/apis": groups},
	}
	var core, others []apidiscoveryv2.APIGroupDiscovery
	for _, g := range s.Groups() {
		for _, v := range g.Versions {
			if !v.Stale { // so that clients ask the extension API server of a stale version
				d.objects[versionPath(v.GroupVersion)] = resourceList(v)
			}
		}
		if g.Name == "" {
			core = append(core, groupDiscovery(g))
			continue
		}
		one := groupOf(g)
		groups.Groups = append(groups.Groups, one)
		one.TypeMeta = metav1.TypeMeta{Kind: "APIGroup", APIVersion: "v1"}
		d.objects["/apis/"+g.Name] = &one
		others = append(others, groupDiscovery(g))
	}
	d.aggregated = map[string]*aggregated{"/api": newAggregated(core), "/apis": newAggregated(others)}
	return d
}

func versionPath(gv schema.GroupVersion) string {
	if gv.Group == "" {
		return "/api/" + gv.Version
	}
	return "/apis/" + gv.Group + "/" + gv.Version
}

func groupOf(g *resource.Group) metav1.APIGroup {
	group := metav1.APIGroup{Name: g.Name}
	for _, v := range g.Versions {
		group.Versions = append(group.Versions,
			metav1.GroupVersionForDiscovery{GroupVersion: v.GroupVersion.String(), Version: v.Version})
	}
	group.PreferredVersion = group.Versions[0]
	return group
}

// resourceList lists the resources of a version, each followed by its subresources. In the core group the list has no
// apiVersion, for compatibility with old clients.
func resourceList(v *resource.Version) *metav1.APIResourceList {
	list := &metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"},
		GroupVersion: v.GroupVersion.String()}
	if v.Group == "" {
		list.APIVersion = ""
	}
	for _, r := range v.Resources {
		list.APIResources = append(list.APIResources, resourceOf(v.GroupVersion, r.Name, r))
		for _, s := range subresources(r) {
			list.APIResources = append(list.APIResources, resourceOf(v.GroupVersion, r.Name+"/"+s.Name, s))
		}
	}
	return list
}

// resourceOf describes a resource. The group and the version are set only if they differ from the list's.
//
//upstream:k8s.io/apiserver/pkg/endpoints.APIInstaller.registerResourceHandlers
func resourceOf(gv schema.GroupVersion, name string, r *resource.Resource) metav1.APIResource {
	entry := metav1.APIResource{
		Name:               name,
		SingularName:       r.Singular,
		Namespaced:         r.Namespaced,
		Kind:               r.Kind.Kind,
		Verbs:              verbs(r),
		ShortNames:         r.ShortNames,
		Categories:         r.Categories,
		StorageVersionHash: r.StorageVersionHash,
	}
	if r.Kind.GroupVersion() != gv {
		entry.Group, entry.Version = r.Kind.Group, r.Kind.Version
	}
	return entry
}

// subresources returns the subresources of a resource, sorted by name for built-in resources, and in their declared
// order for custom resources.
func subresources(r *resource.Resource) []*resource.Resource {
	if r.OpenAPI != nil {
		return r.Subresources
	}
	return slices.SortedFunc(slices.Values(r.Subresources), func(a, b *resource.Resource) int {
		return strings.Compare(a.Name, b.Name)
	})
}

// verbs returns the verbs of a resource in the order of kube-apiserver: alphabetical, except that create directly
// precedes update for custom resources.
func verbs(r *resource.Resource) []string {
	verbs := r.ServedVerbs()
	create, update := slices.Index(verbs, "create"), slices.Index(verbs, "update")
	if r.OpenAPI == nil || create < 0 || update < create {
		return verbs
	}
	return slices.Insert(slices.Delete(slices.Clone(verbs), create, create+1), update-1, "create")
}

//upstream:k8s.io/apiserver/pkg/endpoints/discovery/aggregated.resourceDiscoveryManager
func newAggregated(groups []apidiscoveryv2.APIGroupDiscovery) *aggregated {
	list := &apidiscoveryv2.APIGroupDiscoveryList{Items: groups}
	list.SetGroupVersionKind(aggregatedKind)
	return &aggregated{list: list, etag: sync.OnceValue(func() string { return hashOf(list) })}
}

// hashOf returns the hash of a list, which is the same for all encodings.
//
//upstream:k8s.io/apiserver/pkg/endpoints/discovery/aggregated.calculateETag
func hashOf(list *apidiscoveryv2.APIGroupDiscoveryList) string {
	text, err := json.Marshal(list)
	if err != nil {
		panic(err) // it has only strings
	}
	sum := sha512.Sum512(text)
	return strings.ToUpper(hex.EncodeToString(sum[:]))
}

//upstream:k8s.io/apiserver/pkg/endpoints.ConvertGroupVersionIntoToDiscovery
func groupDiscovery(g *resource.Group) apidiscoveryv2.APIGroupDiscovery {
	group := apidiscoveryv2.APIGroupDiscovery{ObjectMeta: metav1.ObjectMeta{Name: g.Name}}
	for _, v := range g.Versions {
		version := apidiscoveryv2.APIVersionDiscovery{Version: v.Version, Freshness: apidiscoveryv2.DiscoveryFreshnessCurrent}
		if v.Stale {
			version.Freshness = apidiscoveryv2.DiscoveryFreshnessStale
			group.Versions = append(group.Versions, version)
			continue
		}
		for _, r := range v.Resources {
			version.Resources = append(version.Resources, resourceDiscovery(r))
		}
		group.Versions = append(group.Versions, version)
	}
	return group
}

func resourceDiscovery(r *resource.Resource) apidiscoveryv2.APIResourceDiscovery {
	entry := apidiscoveryv2.APIResourceDiscovery{
		Resource:         r.Name,
		ResponseKind:     responseKind(r),
		Scope:            apidiscoveryv2.ScopeCluster,
		SingularResource: r.Singular,
		Verbs:            verbs(r),
		ShortNames:       r.ShortNames,
		Categories:       r.Categories,
	}
	if r.Namespaced {
		entry.Scope = apidiscoveryv2.ScopeNamespace
	}
	for _, s := range subresources(r) {
		entry.Subresources = append(entry.Subresources, apidiscoveryv2.APISubresourceDiscovery{
			Subresource: s.Name, ResponseKind: responseKind(s), Verbs: verbs(s),
		})
	}
	return entry
}

// responseKind returns the kind of a resource. A built-in kind in the group version of the list has no group and version.
func responseKind(r *resource.Resource) *metav1.GroupVersionKind {
	if r.OpenAPI == nil && !r.Remote && r.Kind.GroupVersion() == r.GroupVersion {
		return &metav1.GroupVersionKind{Kind: r.Kind.Kind}
	}
	return &metav1.GroupVersionKind{Group: r.Kind.Group, Version: r.Kind.Version, Kind: r.Kind.Kind}
}
