package kinds

import (
	"context"
	"reflect"

	"k8s.io/apimachinery/pkg/api/meta"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"

	"flyball.dev/apiserver/managedfields"
)

// stored implements [Stored] with a kind's registry.
type stored[T Object] struct {
	store      *registry.Store
	apiVersion string
}

// manager is the field manager of what the server itself creates.
const manager = "kube-apiserver"

func newStored[T Object](store *registry.Store, s *strategy[T]) Stored[T] {
	writes := *store
	writes.UpdateStrategy = customStrategy[T]{s}
	writes.BeginCreate, writes.BeginUpdate, writes.AfterUpdate, writes.AfterDelete = nil, nil, nil, nil
	return stored[T]{&writes, s.version.String()}
}

func (s stored[T]) Get(ctx context.Context, name string) (T, error) {
	obj, err := s.store.Get(ctx, name, &metav1.GetOptions{})
	if err != nil {
		var none T
		return none, err
	}
	return obj.(T), nil
}

func (s stored[T]) List(ctx context.Context, yield func(T)) error {
	list, err := s.store.List(request.WithNamespace(ctx, metav1.NamespaceAll), &metainternalversion.ListOptions{})
	if err != nil {
		return err
	}
	return meta.EachListItem(list, func(obj runtime.Object) error {
		yield(obj.(T))
		return nil
	})
}

func (s stored[T]) Create(ctx context.Context, obj T) error {
	managedfields.ForType(reflect.TypeOf(obj).Elem(), s.apiVersion, nil).
		Update(nil, obj, managedfields.Write{Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate})
	_, err := s.store.Create(ctx, obj, rest.ValidateAllObjectFunc, &metav1.CreateOptions{})
	return err
}

func (s stored[T]) Update(ctx context.Context, name string, dryRun []string, change func(T) error) (T, error) {
	info := rest.DefaultUpdatedObjectInfo(nil, func(_ context.Context, _, old runtime.Object) (runtime.Object, error) {
		obj := old.DeepCopyObject().(T)
		return obj, change(obj)
	})
	obj, _, err := s.store.Update(ctx, name, info, rest.ValidateAllObjectFunc, rest.ValidateAllObjectUpdateFunc,
		false, &metav1.UpdateOptions{DryRun: dryRun})
	if err != nil {
		var none T
		return none, err
	}
	return obj.(T), nil
}

func (s stored[T]) Delete(ctx context.Context, name string, options *metav1.DeleteOptions) error {
	_, _, err := s.store.Delete(ctx, name, rest.ValidateAllObjectFunc, options)
	return err
}
