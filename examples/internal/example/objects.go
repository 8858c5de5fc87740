package example

import (
	"context"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"

	"flyball.dev/ctrl/client"
)

// ResourceVersions returns the resource versions of all objects of all kinds in a namespace, by
// resource and name, such as "deployments/web".
func (w *World) ResourceVersions(ctx context.Context, namespace string) (map[string]string, error) {
	d, err := discovery.NewDiscoveryClientForConfig(w.Config)
	if err != nil {
		return nil, err
	}
	kinds, err := d.ServerPreferredNamespacedResources()
	if err != nil {
		return nil, err
	}
	versions := map[string]string{}
	for _, group := range discovery.FilteredBy(discovery.SupportsAllVerbs{Verbs: []string{"list"}}, kinds) {
		for _, r := range group.APIResources {
			list := &metav1.PartialObjectMetadataList{}
			list.APIVersion, list.Kind = group.GroupVersion, r.Kind+"List"
			if err := w.Client.List(ctx, list, client.InNamespace(namespace)); err != nil {
				return nil, err
			}
			for _, item := range list.Items {
				versions[r.Name+"/"+item.Name] = item.ResourceVersion
			}
		}
	}
	return versions, nil
}

// Unchanged returns an error with the objects in a namespace that were created, changed or deleted
// since [World.ResourceVersions] has returned before. Events, Endpoints, EndpointSlices and what each
// namespace gets do not count, because they are written some time after what they are about.
func (w *World) Unchanged(ctx context.Context, namespace string, before map[string]string) error {
	after, err := w.ResourceVersions(ctx, namespace)
	if err != nil {
		return err
	}
	for _, versions := range []map[string]string{before, after} {
		for object := range versions {
			resource, _, _ := strings.Cut(object, "/")
			later := resource == "events" || resource == "endpoints" || resource == "endpointslices"
			ofNamespace := object == "configmaps/kube-root-ca.crt" || object == "serviceaccounts/default"
			if !later && !ofNamespace && before[object] != after[object] {
				return fmt.Errorf("%s was at resource version %q and is at %q", object, before[object], after[object])
			}
		}
	}
	return nil
}
