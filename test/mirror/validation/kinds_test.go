package validation

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"

	"flyball.dev/apiserver/builtin"
	"flyball.dev/apiserver/kinds"
	"flyball.dev/apiserver/resource"
	kindschema "flyball.dev/apiserver/schema"
	"flyball.dev/apiserver/store"
	"flyball.dev/storage/memory"
)

// kind is a kind in one version, with the two sides that handle its objects.
type kind struct {
	name       string // such as pods, deployments.apps
	gvk        schema.GroupVersionKind
	resource   schema.GroupVersionResource
	namespaced bool
	ours       side
	theirs     side
}

// subresources returns the names of the subresources that both sides update, "" for the resource.
func (k *kind) subresources() []string {
	var names []string
	for name := range k.theirs.strategies {
		if k.ours.strategies[name] != nil {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// side handles the objects of a kind.
type side struct {
	defaulter  runtime.ObjectDefaulter
	convertor  runtime.ObjectConvertor
	hub        runtime.GroupVersioner // the version that the strategies work on
	strategies strategies
}

// uncompared are the subresources with storages of their own, which are no strategies.
var uncompared = []string{"namespaces/finalize"}

// allKinds returns all kinds that we serve, each with upstream's strategies.
var allKinds = sync.OnceValues(func() ([]*kind, error) {
	resources, err := ourResources()
	if err != nil {
		return nil, err
	}
	upstream := upstreamStrategies()
	var all []*kind
	for _, r := range resources {
		main, ok := registryOf(r.Storage)
		if !ok {
			continue // it stores nothing
		}
		gvr := r.GroupVersionResource()
		theirs := upstream[gvr.GroupResource()]
		if theirs == nil {
			return nil, fmt.Errorf("no strategies of upstream for %s", gvr)
		}
		k := &kind{gvk: r.Kind, resource: gvr, namespaced: r.Namespaced, name: nameOf(gvr)}
		scheme := upstreamScheme(gvr.Group)
		k.theirs = side{scheme, scheme, schema.GroupVersion{Group: gvr.Group, Version: runtime.APIVersionInternal}, theirs}
		k.ours = side{r.Scope.Defaulter, r.Scope.Convertor, r.Scope.HubGroupVersion, strategies{"": main.UpdateStrategy}}
		for _, sub := range r.Subresources {
			if s, ok := registryOf(sub.Storage); ok {
				k.ours.strategies[sub.Name] = s.UpdateStrategy
			}
		}
		all = append(all, k)
	}
	return all, nil
})

// nameOf returns the name of a kind in reports; it has the version where the kind has several.
func nameOf(gvr schema.GroupVersionResource) string {
	if gvr.Resource == "horizontalpodautoscalers" {
		return gvr.Resource + "." + gvr.Version + "." + gvr.Group
	}
	return strings.TrimSuffix(gvr.Resource+"."+gvr.Group, ".")
}

// registryOf returns the registry behind a storage.
func registryOf(s rest.Storage) (*registry.Store, bool) {
	switch s := s.(type) {
	case *registry.Store:
		return s, true
	case interface{ Registry() *registry.Store }:
		return s.Registry(), true
	}
	return nil, false
}

// ourResources returns the resources of our built-in kinds over a store in memory.
func ourResources() ([]*resource.Resource, error) {
	return kinds.Resources(kinds.Options{
		Scheme:              builtin.Scheme(),
		Codecs:              builtin.Codecs(),
		Storage:             store.RESTOptions(store.Options{Storage: memory.New(memory.Options{}), Codec: builtin.StorageCodec}),
		TypeConverter:       kindschema.TypeConverter(builtin.Scheme()),
		Authorizer:          allowed{},
		MaxRequestBodyBytes: 3 << 20,
	}, builtin.All(builtin.Options{Authorizer: allowed{}, Namespace: func(_ context.Context, name string) (*corev1.Namespace, error) {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, nil
	}}))
}

// TestSubresources: each subresource of upstream with a strategy has one of ours, and the other way round.
func TestSubresources(t *testing.T) {
	all, err := allKinds()
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range all {
		for name := range k.theirs.strategies {
			if k.ours.strategies[name] == nil && !slices.Contains(uncompared, k.name+"/"+name) {
				t.Errorf("%s/%s has no strategy of ours", k.name, name)
			}
		}
		for name := range k.ours.strategies {
			if k.theirs.strategies[name] == nil {
				t.Errorf("%s/%s has no strategy of upstream", k.name, name)
			}
		}
	}
}
