package kinds

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
)

// guarded is a store that writes only what a guard permits.
//
//upstream:pkg/registry/rbac/clusterrole/policybased.Storage
type guarded struct {
	*registry.Store
	guard func(ctx context.Context, obj, old runtime.Object) error
}

func (g guarded) Create(ctx context.Context, obj runtime.Object, validate rest.ValidateObjectFunc,
	options *metav1.CreateOptions) (runtime.Object, error) {
	if err := g.guard(ctx, obj, nil); err != nil {
		return nil, err
	}
	return g.Store.Create(ctx, obj, validate, options)
}

func (g guarded) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo,
	validateCreate rest.ValidateObjectFunc, validateUpdate rest.ValidateObjectUpdateFunc, forceAllowCreate bool,
	options *metav1.UpdateOptions) (runtime.Object, bool, error) {
	info = rest.WrapUpdatedObjectInfo(info, func(ctx context.Context, obj, old runtime.Object) (runtime.Object, error) {
		return obj, g.guard(ctx, obj, old)
	})
	return g.Store.Update(ctx, name, info, validateCreate, validateUpdate, forceAllowCreate, options)
}
