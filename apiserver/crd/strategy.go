package crd

import (
	"context"

	"k8s.io/apiextensions-apiserver/pkg/registry/customresource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// strategy is what upstream's strategies for custom resources are.
type strategy interface {
	rest.RESTCreateStrategy
	rest.RESTUpdateStrategy
	rest.ResetFieldsStrategy
}

// lazyStrategy is a strategy without the schema until something must be validated: compiling the rules
// of a schema takes longer than all the rest of serving it.
type lazyStrategy struct {
	strategy
	whole func() (strategy, error)
}

func (s lazyStrategy) Validate(ctx context.Context, obj runtime.Object) field.ErrorList {
	whole, err := s.whole()
	if err != nil {
		return field.ErrorList{field.InternalError(nil, err)}
	}
	return whole.Validate(ctx, obj)
}

func (s lazyStrategy) ValidateUpdate(ctx context.Context, obj, old runtime.Object) field.ErrorList {
	whole, err := s.whole()
	if err != nil {
		return field.ErrorList{field.InternalError(nil, err)}
	}
	return whole.ValidateUpdate(ctx, obj, old)
}

// strategies are those of one version, with its schema.
type strategies struct{ main, status strategy }

// statusResources are the status subresources of one version. They share the storage of the resources.
type statusResources struct{ store *registry.Store }

func newStatusResources(main *customresource.REST, s strategy) *statusResources {
	store := *main.Store
	store.UpdateStrategy, store.ResetFieldsStrategy = s, s
	return &statusResources{&store}
}

func (r *statusResources) New() runtime.Object { return r.store.New() }

func (r *statusResources) Get(ctx context.Context, name string, o *metav1.GetOptions) (runtime.Object, error) {
	return r.store.Get(ctx, name, o)
}

// Update changes the status. It never makes a resource.
func (r *statusResources) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo, validateNew rest.ValidateObjectFunc,
	validate rest.ValidateObjectUpdateFunc, _ bool, o *metav1.UpdateOptions) (runtime.Object, bool, error) {
	return r.store.Update(ctx, name, info, validateNew, validate, false, o)
}

func (r *statusResources) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	return r.store.GetResetFields()
}

// Destroy implements [rest.Storage].
func (r *statusResources) Destroy() {}
