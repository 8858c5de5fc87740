package inventory

import (
	"context"
	"errors"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/discovery"

	"flyball.dev/internal/inprocess"
)

// Resource is a kind of object, in all its versions.
type Resource struct {
	// Kind has the version that the server prefers.
	Kind schema.GroupVersionKind
	// Versions are all served versions.
	Versions   []string
	Plural     string
	Namespaced bool
	Verbs      []string
}

// Can reports whether the resource has the verb.
func (r Resource) Can(verb string) bool { return slices.Contains(r.Verbs, verb) }

// Monitored reports whether inventories watch the resource. They do not watch events, which are many, own nothing and
// expire.
//
//upstream:pkg/controller/garbagecollector.DefaultIgnoredResources
//upstream:pkg/controller/garbagecollector.GetDeletableResources
func (r Resource) Monitored() bool {
	return r.Kind.Kind != "Event" && r.Can("list") && r.Can("watch") && r.Can("delete")
}

func (r Resource) equal(other Resource) bool {
	return r.Kind == other.Kind && r.Plural == other.Plural && r.Namespaced == other.Namespaced &&
		slices.Equal(r.Versions, other.Versions) && slices.Equal(r.Verbs, other.Verbs)
}

// Discover returns the server's resources. Resources are missing for the groups in the error undiscovered and the group
// versions in the error unparsed.
//
//upstream:pkg/controller/garbagecollector.GetDeletableResources
func (i *Inventory) Discover(ctx context.Context) (_ []Resource, undiscovered, unparsed error) {
	groups, lists, undiscovered := i.discovery.ServerGroupsAndResourcesWithContext(ctx)
	if len(lists) == 0 && undiscovered == nil {
		undiscovered = errors.New("the server reports no resources")
	}
	var errs []error
	for _, list := range lists {
		if _, err := schema.ParseGroupVersion(list.GroupVersion); err != nil {
			errs = append(errs, err)
		}
	}
	return resourcesOf(groups, lists), undiscovered, errors.Join(errs...)
}

// discovered is the key of the resources in [inprocess.Discovered].
type discovered struct{}

// discoverOnce is Discover, unless another inventory has made the same of the same documents.
func (i *Inventory) discoverOnce(ctx context.Context) (_ []Resource, undiscovered, unparsed error) {
	same := inprocess.Discovered(i.config)
	if same == nil {
		return i.Discover(ctx)
	}
	if all, ok := same.Load(discovered{}); ok {
		return all.([]Resource), nil, nil
	}
	all, undiscovered, unparsed := i.Discover(ctx)
	if undiscovered == nil && unparsed == nil && inprocess.Discovered(i.config) == same { // not changed meanwhile
		same.Store(discovered{}, all)
	}
	return all, undiscovered, unparsed
}

// staleGroups returns the groups of an error of discovery that is only about some of them.
func staleGroups(err error) sets.Set[string] {
	groups := sets.New[string]()
	if failed, ok := discovery.GroupDiscoveryFailedErrorGroups(err); ok {
		for gv := range failed {
			groups.Insert(gv.Group)
		}
	}
	return groups
}

// resourcesOf returns the resources of the groups, each with all its versions.
func resourcesOf(groups []*metav1.APIGroup, lists []*metav1.APIResourceList) []Resource {
	byVersion := map[string][]metav1.APIResource{}
	for _, list := range lists {
		byVersion[list.GroupVersion] = list.APIResources
	}
	var out []Resource
	for _, g := range groups {
		index := map[string]int{} // in out, by plural name
		for _, v := range preferredFirst(g) {
			for _, r := range byVersion[v.GroupVersion] {
				if strings.Contains(r.Name, "/") {
					continue
				}
				if at, ok := index[r.Name]; ok {
					out[at].Versions = append(out[at].Versions, v.Version)
					continue
				}
				index[r.Name] = len(out)
				out = append(out, Resource{
					Kind:     schema.GroupVersionKind{Group: g.Name, Version: v.Version, Kind: r.Kind},
					Versions: []string{v.Version}, Plural: r.Name, Namespaced: r.Namespaced, Verbs: r.Verbs,
				})
			}
		}
	}
	return out
}

// preferredFirst returns the versions of a group, beginning with the preferred one.
func preferredFirst(g *metav1.APIGroup) []metav1.GroupVersionForDiscovery {
	versions := []metav1.GroupVersionForDiscovery{}
	for _, v := range g.Versions {
		if v == g.PreferredVersion {
			versions = slices.Insert(versions, 0, v)
		} else {
			versions = append(versions, v)
		}
	}
	return versions
}
