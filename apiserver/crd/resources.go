package crd

import (
	"context"
	"errors"

	"k8s.io/apiextensions-apiserver/pkg/registry/customresource"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metainternal "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"

	"flyball.dev/apiserver/resource"
	"flyball.dev/apiserver/store"
)

// customResources is the storage of one version. It extends the storage of apiextensions-apiserver: it refuses to
// create resources of a terminating definition, and ends watches when the definition changes.
type customResources struct {
	*customresource.REST
	gate *instanceGate
	live context.Context
}

// Create creates a resource unless the definition is terminating.
func (r *customResources) Create(ctx context.Context, obj runtime.Object, validate rest.ValidateObjectFunc,
	o *metav1.CreateOptions) (runtime.Object, error) {
	if !r.gate.enter() {
		return nil, r.refuse(obj)
	}
	defer r.gate.leave()
	return r.REST.Create(ctx, obj, validate, o)
}

var _ resource.RegistryUpdater = (*customResources)(nil)

// Registry implements [resource.RegistryUpdater].
func (r *customResources) Registry() *registry.Store { return r.Store }

// Update updates a resource. While the definition is terminating, it refuses updates that may create a resource, such
// as applies.
func (r *customResources) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo,
	validateNew rest.ValidateObjectFunc,
	validate rest.ValidateObjectUpdateFunc, mayCreate bool, o *metav1.UpdateOptions) (runtime.Object, bool, error) {
	if mayCreate {
		if r.gate.enter() {
			defer r.gate.leave()
		} else {
			validateNew = func(_ context.Context, obj runtime.Object) error { return r.refuse(obj) }
		}
	}
	return r.REST.Update(ctx, name, info, validateNew, validate, mayCreate, o)
}

func (r *customResources) refuse(obj runtime.Object) error {
	name := ""
	if m, ok := obj.(metav1.Object); ok {
		name = m.GetName()
	}
	return apierrors.NewForbidden(r.DefaultQualifiedResource, name,
		errors.New("create not allowed while custom resource definition is terminating"))
}

// Watch watches until ctx ends or the definition changes. After a change of the definition, the watch first sends all
// earlier events. Among them are the deletions of all resources if the definition was deleted.
func (r *customResources) Watch(ctx context.Context, o *metainternal.ListOptions) (watch.Interface, error) {
	return r.REST.Watch(store.WithDrain(ctx, r.live.Done()), o)
}
