package kinds

import (
	"context"
	"errors"
	"reflect"

	"k8s.io/apimachinery/pkg/api/meta"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage"
	storageerrors "k8s.io/apiserver/pkg/storage/errors"

	"flyball.dev/apiserver/managedfields"
	"flyball.dev/apiserver/resource"
)

// stored implements [Stored] with a kind's registry.
type stored[T Object] struct {
	store      *registry.Store
	apiVersion string
}

// manager is the field manager of what the server itself creates.
const manager = "kube-apiserver"

func newStored(store *registry.Store, s *strategy) Stored[Object] {
	writes := *store
	writes.UpdateStrategy = customStrategy{s}
	writes.BeginCreate, writes.BeginUpdate, writes.AfterUpdate, writes.AfterDelete = nil, nil, nil, nil
	return stored[Object]{&writes, s.version.String()}
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
	if updater, ok := s.store.Storage.Storage.(resource.StorageUpdater); ok && len(dryRun) == 0 && s.store.TTLFunc == nil && s.store.Decorator == nil {
		obj, err := s.updateLive(ctx, updater, name, change)
		if !errors.Is(err, errTerminating) {
			return obj, err
		}
	}
	info := rest.DefaultUpdatedObjectInfo(nil, func(_ context.Context, _, old runtime.Object) (runtime.Object, error) {
		obj := old.DeepCopyObject().(T)
		return obj, change(obj)
	})
	// Without functions that validate, the store makes no copies for them.
	obj, _, err := s.store.Update(ctx, name, info, nil, nil, false, &metav1.UpdateOptions{DryRun: dryRun})
	if err != nil {
		var none T
		return none, err
	}
	return obj.(T), nil
}

// errTerminating is returned for an object that is being deleted. The update may complete the deletion, which only the registry
// does.
var errTerminating = errors.New("the object is being deleted")

// updateLive updates an object like [registry.Store.Update], but copies it only for the change. The result is a shallow copy of the
// stored object.
//
//upstream:k8s.io/apiserver/pkg/registry/generic/registry.Store.Update
func (s stored[T]) updateLive(ctx context.Context, updater resource.StorageUpdater, name string, change func(T) error) (none T, err error) {
	key, err := s.store.KeyFunc(ctx, name)
	if err != nil {
		return none, err
	}
	obj, err := updater.Update(ctx, key, nil,
		func(current runtime.Object, _ storage.ResponseMeta) (runtime.Object, *uint64, error) {
			if current.(T).GetDeletionTimestamp() != nil {
				return nil, nil, errTerminating
			}
			obj := current.DeepCopyObject().(T)
			if err := change(obj); err != nil {
				return nil, nil, err
			}
			return obj, nil, rest.BeforeUpdate(s.store.UpdateStrategy, ctx, obj, current)
		})
	if err != nil {
		return none, storageerrors.InterpretUpdateError(err, s.store.DefaultQualifiedResource, name)
	}
	return obj.(T), nil
}

func (s stored[T]) Delete(ctx context.Context, name string, options *metav1.DeleteOptions) error {
	_, _, err := s.store.Delete(ctx, name, rest.ValidateAllObjectFunc, options)
	return err
}
