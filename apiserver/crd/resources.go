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
	"k8s.io/apiserver/pkg/registry/rest"

	"flyball.dev/apiserver/store"
)

// customResources are the resources of one version. Beside what upstream's storage does, they are not
// made any more once their definition is being deleted, and watches of them end when they are served
// in another way.
type customResources struct {
	*customresource.REST
	gate *instanceGate
	live context.Context
}

// Create makes a resource, unless the definition is being deleted.
func (r *customResources) Create(ctx context.Context, obj runtime.Object, validate rest.ValidateObjectFunc, o *metav1.CreateOptions) (runtime.Object, error) {
	if !r.gate.enter() {
		return nil, r.refuse(obj)
	}
	defer r.gate.leave()
	return r.REST.Create(ctx, obj, validate, o)
}

// Update changes a resource. If it may make one, as apply does, it does not when the definition is
// being deleted.
func (r *customResources) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo, validateNew rest.ValidateObjectFunc,
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
	return apierrors.NewForbidden(r.DefaultQualifiedResource, name, errors.New("create not allowed while custom resource definition is terminating"))
}

// Watch watches until ctx ends or the resources are no longer served by r. In the latter case the watch
// ends with what was written by then: when a definition is deleted, nobody could learn otherwise that
// its resources were deleted before it.
func (r *customResources) Watch(ctx context.Context, o *metainternal.ListOptions) (watch.Interface, error) {
	return r.REST.Watch(store.WithDrain(ctx, r.live.Done()), o)
}
