package example

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"

	"flyball.dev/ctrl/client"
)

// ResourceVersions returns the resource versions of all objects of all kinds in a namespace, by
// resource and name, such as "deployments/web". If two results are equal, nothing was written there
// in between.
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
