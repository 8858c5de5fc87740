package fakeapi

import (
	"net/http"
	"slices"
	"strings"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
)

// discovery returns the document at a path, if it is one of discovery. It is not aggregated.
func (s *Server) discovery(path string) any {
	var groups []metav1.APIGroup
	lists := map[string]*metav1.APIResourceList{}
	for _, r := range s.resources {
		gv, prefix := r.kind.GroupVersion(), "/api/"
		if gv.Group != "" {
			prefix = "/apis/"
			version := metav1.GroupVersionForDiscovery{GroupVersion: gv.String(), Version: gv.Version}
			i := slices.IndexFunc(groups, func(g metav1.APIGroup) bool { return g.Name == gv.Group })
			if i < 0 {
				i = len(groups)
				groups = append(groups, metav1.APIGroup{Name: gv.Group, PreferredVersion: version})
			}
			if !slices.Contains(groups[i].Versions, version) {
				groups[i].Versions = append(groups[i].Versions, version)
			}
		}
		if lists[prefix+gv.String()] == nil {
			lists[prefix+gv.String()] = &metav1.APIResourceList{GroupVersion: gv.String()}
		}
		list := lists[prefix+gv.String()]
		list.APIResources = append(list.APIResources,
			metav1.APIResource{
				Kind: r.kind.Kind, Name: r.plural, Namespaced: r.namespaced, Verbs: metav1.Verbs{"get"}},
			metav1.APIResource{
				Kind: r.kind.Kind, Name: r.plural + "/status", Namespaced: r.namespaced, Verbs: metav1.Verbs{"get"}})
	}
	switch i := slices.IndexFunc(groups, func(g metav1.APIGroup) bool { return path == "/apis/"+g.Name }); {
	case path == "/api":
		return metav1.APIVersions{Versions: []string{"v1"}}
	case path == "/apis":
		return metav1.APIGroupList{Groups: groups}
	case i >= 0:
		return groups[i]
	case lists[path] != nil:
		return lists[path]
	}
	return nil
}

// aggregate returns a response with a document of discovery, or with the aggregated form of it if
// the server has one and the request asks for it.
func (s *Server) aggregate(req Request, document any) *http.Response {
	if !s.Aggregated || !strings.Contains(req.Accept, "as=APIGroupDiscoveryList") {
		return JSON(http.StatusOK, document)
	}
	groups := []metav1.APIGroup{{Versions: []metav1.GroupVersionForDiscovery{{GroupVersion: "v1", Version: "v1"}}}}
	switch document := document.(type) {
	case metav1.APIVersions:
	case metav1.APIGroupList:
		groups = document.Groups
	default:
		return JSON(http.StatusOK, document)
	}
	list := apidiscoveryv2.APIGroupDiscoveryList{}
	list.SetGroupVersionKind(apidiscoveryv2.SchemeGroupVersion.WithKind("APIGroupDiscoveryList"))
	for _, g := range groups {
		item := apidiscoveryv2.APIGroupDiscovery{ObjectMeta: metav1.ObjectMeta{Name: g.Name}}
		for _, v := range g.Versions {
			gv := schema.GroupVersion{Group: g.Name, Version: v.Version}
			item.Versions = append(item.Versions, s.aggregatedVersion(gv))
		}
		list.Items = append(list.Items, item)
	}
	resp := JSON(http.StatusOK, list)
	resp.Header.Set("Content-Type", discovery.AcceptV2)
	return resp
}

// aggregatedVersion returns the resources of a version, or that it is stale.
func (s *Server) aggregatedVersion(gv schema.GroupVersion) apidiscoveryv2.APIVersionDiscovery {
	version := apidiscoveryv2.APIVersionDiscovery{Version: gv.Version, Freshness: apidiscoveryv2.DiscoveryFreshnessCurrent}
	if slices.Contains(s.Stale, gv) {
		version.Freshness = apidiscoveryv2.DiscoveryFreshnessStale
		return version
	}
	for _, r := range s.resources {
		if r.kind.GroupVersion() != gv {
			continue
		}
		scope := apidiscoveryv2.ScopeCluster
		if r.namespaced {
			scope = apidiscoveryv2.ScopeNamespace
		}
		version.Resources = append(version.Resources, apidiscoveryv2.APIResourceDiscovery{
			Resource: r.plural, Scope: scope, Verbs: []string{"get"},
			ResponseKind: &metav1.GroupVersionKind{Group: gv.Group, Version: gv.Version, Kind: r.kind.Kind},
		})
	}
	return version
}
