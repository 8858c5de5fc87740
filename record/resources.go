package record

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
)

// definitions is the resource of CustomResourceDefinitions, and services the one of APIServices. Their changes change what a
// cluster serves.
var (
	definitions = schema.GroupResource{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"}
	services    = schema.GroupResource{Group: "apiregistration.k8s.io", Resource: "apiservices"}
)

// sameObjects are resources with the objects of another resource. They are recorded only if the cluster does not serve the other.
var sameObjects = map[schema.GroupResource]schema.GroupResource{
	{Group: "events.k8s.io", Resource: "events"}:   {Resource: "events"},
	{Group: "extensions", Resource: "ingresses"}:   {Group: "networking.k8s.io", Resource: "ingresses"},
	{Group: "extensions", Resource: "deployments"}: {Group: "apps", Resource: "deployments"},
}

// listed is a resource with the names by which users select it.
type listed struct {
	Resource
	names []string
}

// discoverResources returns the resources that the cluster serves and that can be listed and watched, each in one version: the
// stored one of a custom resource, and the preferred one of another. failed has the group versions
// with documents that cannot be read.
func (c *Cluster) discoverResources(ctx context.Context) (found []listed, failed map[schema.GroupVersion]error, err error) {
	client := discovery.NewDiscoveryClient(c.client)
	_, lists, err := client.ServerGroupsAndResourcesWithContext(ctx)
	if partial, ok := errors.AsType[*discovery.ErrGroupDiscoveryFailed](err); ok {
		failed = partial.Groups
	} else if err != nil {
		return nil, nil, err
	}
	stored := c.storedVersions(ctx)
	chosen := map[schema.GroupResource]int{}
	for _, list := range lists { // the preferred version of a group comes first
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return nil, nil, err
		}
		for _, r := range list.APIResources {
			if strings.Contains(r.Name, "/") || !slices.Contains(r.Verbs, "list") || !slices.Contains(r.Verbs, "watch") {
				continue
			}
			l := listed{Resource{gv.Group, gv.Version, r.Name, r.Kind, r.Namespaced}, namesOf(gv.Group, r)}
			i, known := chosen[l.GroupResource()]
			switch {
			case !known:
				chosen[l.GroupResource()] = len(found)
				found = append(found, l)
			case stored[l.GroupResource()] == gv.Version:
				found[i] = l
			}
		}
	}
	return slices.DeleteFunc(found, func(l listed) bool {
		_, twice := chosen[sameObjects[l.GroupResource()]]
		return twice && sameObjects[l.GroupResource()].Resource != ""
	}), failed, nil
}

// namesOf returns the names of a resource, in lower case, without and with its group.
func namesOf(group string, r metav1.APIResource) (names []string) {
	for _, name := range slices.Concat([]string{r.Name, r.SingularName, r.Kind}, r.ShortNames) {
		if name == "" {
			continue
		}
		name = strings.ToLower(name)
		names = append(names, name, name+"."+group)
	}
	return names
}

// storedVersions returns the stored versions of the custom resources. It returns none of the ones that it may not read; their
// objects are recorded in the preferred version.
func (c *Cluster) storedVersions(ctx context.Context) map[schema.GroupResource]string {
	var list struct {
		Items []struct {
			Spec struct {
				Group    string
				Names    struct{ Plural string }
				Versions []struct {
					Name            string
					Served, Storage bool
				}
			}
		}
	}
	body, err := get(ctx, c.client.Get().AbsPath("/apis/apiextensions.k8s.io/v1/customresourcedefinitions"))
	if err != nil || json.Unmarshal(body, &list) != nil {
		return nil
	}
	stored := map[schema.GroupResource]string{}
	for _, d := range list.Items {
		for _, v := range d.Spec.Versions {
			if v.Storage && v.Served {
				stored[schema.GroupResource{Group: d.Spec.Group, Resource: d.Spec.Names.Plural}] = v.Name
			}
		}
	}
	return stored
}

// selectResources returns the resources that kinds name, all without kinds, and the names that none has.
func selectResources(all []listed, kinds []string) (selected []Resource, unknown []string) {
	if len(kinds) == 0 {
		for _, l := range all {
			selected = append(selected, l.Resource)
		}
		return selected, nil
	}
	for _, kind := range kinds {
		name := strings.ToLower(kind)
		known := false
		for _, l := range all {
			if slices.Contains(l.names, name) {
				known = true
				if !slices.Contains(selected, l.Resource) {
					selected = append(selected, l.Resource)
				}
			}
		}
		if !known {
			unknown = append(unknown, kind)
		}
	}
	return selected, unknown
}

// path returns the path of the objects of a resource.
func (r Resource) path() string {
	if r.Group == "" {
		return fmt.Sprintf("/api/%s/%s", r.Version, r.Name)
	}
	return fmt.Sprintf("/apis/%s/%s/%s", r.Group, r.Version, r.Name)
}

// isGone reports whether an error says that a version of a resource is not served.
func isGone(err error) bool { return apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err) }
