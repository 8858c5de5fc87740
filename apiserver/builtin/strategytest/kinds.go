// Package strategytest writes objects of the built-in kinds through their strategies, without a server and without
// storage: it sets the defaults, resets what clients may not set, validates, and collects the warnings. A write can go
// through the strategies of another side too, so that both can be compared. Package builtin replays recorded writes, and
// test/mirror compares with k8s.io/kubernetes.
package strategytest

import (
	"context"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"

	"flyball.dev/apiserver/authz"
	"flyball.dev/apiserver/builtin"
	"flyball.dev/apiserver/kinds"
	kindschema "flyball.dev/apiserver/schema"
	"flyball.dev/apiserver/store"
	"flyball.dev/storage/memory"
)

// Namespace is the namespace of all objects.
const Namespace = "default"

// Kind is a kind in one version.
type Kind struct {
	Name       string // such as pods, deployments.apps; with the version where the kind has several
	GVK        schema.GroupVersionKind
	Resource   schema.GroupVersionResource
	Namespaced bool
	Ours       Side
}

// Strategies are the strategies of a resource, and of its subresources by name; "" is the resource.
type Strategies map[string]rest.RESTUpdateStrategy

// Side handles the objects of a kind.
type Side struct {
	Defaulter  runtime.ObjectDefaulter
	Convertor  runtime.ObjectConvertor
	Hub        runtime.GroupVersioner // the version that the strategies work on
	Strategies Strategies
}

// Kinds returns the built-in kinds that are stored, each with its own strategies.
func Kinds() ([]*Kind, error) {
	resources, err := kinds.Resources(kinds.Options{
		Scheme:              builtin.Scheme(),
		Codecs:              builtin.Codecs(),
		Storage:             store.RESTOptions(store.Options{Storage: memory.New(memory.Options{}), Codec: builtin.StorageCodec}),
		TypeConverter:       kindschema.TypeConverter(builtin.Scheme()),
		Authorizer:          authz.AlwaysAllow{},
		MaxRequestBodyBytes: 3 << 20,
	}, builtin.All(builtin.Options{Authorizer: authz.AlwaysAllow{}, Namespace: func(_ context.Context, name string) (*corev1.Namespace, error) {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, nil
	}}))
	if err != nil {
		return nil, err
	}
	var all []*Kind
	for _, r := range resources {
		main, ok := registryOf(r.Storage)
		if !ok {
			continue // it stores nothing
		}
		gvr := r.GroupVersionResource()
		k := &Kind{GVK: r.Kind, Resource: gvr, Namespaced: r.Namespaced, Name: nameOf(gvr)}
		k.Ours = Side{r.Scope.Defaulter, r.Scope.Convertor, r.Scope.HubGroupVersion, Strategies{"": main.UpdateStrategy}}
		for _, sub := range r.Subresources {
			if s, ok := registryOf(sub.Storage); ok {
				k.Ours.Strategies[sub.Name] = s.UpdateStrategy
			}
		}
		all = append(all, k)
	}
	return all, nil
}

// nameOf returns the name of a kind.
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
