package endpoints

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage"
	storageerrors "k8s.io/apiserver/pkg/storage/errors"

	"flyball.dev/apiserver/resource"
)

// creation returns the function that creates the object of a write in a storage: without the copies of the registry if the
// storage is a plain registry.
func (w *write) creation(s rest.Creater) createFunc {
	store, plain := s.(*registry.Store)
	if !plain || store.BeginCreate != nil || store.AfterCreate != nil || store.Decorator != nil {
		return s.Create
	}
	creater, ok := store.Storage.Storage.(resource.StorageCreater)
	if !ok {
		return s.Create
	}
	return func(ctx context.Context, obj runtime.Object, validate rest.ValidateObjectFunc,
		options *metav1.CreateOptions) (runtime.Object, error) {
		named, ok := obj.(object)
		if !ok || named.GetName() == "" && named.GetGenerateName() != "" { // the registry tries several names
			return s.Create(ctx, obj, validate, options)
		}
		return w.storeNew(ctx, store, creater, named, validate)
	}
}

// storeNew creates an object like [registry.Store.Create], but copies neither the object for validating admission, which
// does not change it, nor the result.
//
//upstream:k8s.io/apiserver/pkg/registry/generic/registry.Store.create
func (w *write) storeNew(ctx context.Context, s *registry.Store, creater resource.StorageCreater, obj object,
	validate rest.ValidateObjectFunc) (runtime.Object, error) {
	rest.FillObjectMetaSystemFields(obj)
	if err := rest.BeforeCreate(s.CreateStrategy, ctx, obj); err != nil {
		return nil, err
	}
	if err := validate(ctx, obj); err != nil {
		return nil, err
	}
	name, err := s.ObjectNameFunc(obj)
	if err != nil {
		return nil, err
	}
	key, err := s.KeyFunc(ctx, name)
	if err != nil {
		return nil, err
	}
	ttl := uint64(0)
	if s.TTLFunc != nil {
		if ttl, err = s.TTLFunc(obj, 0, false); err != nil {
			return nil, err
		}
	}
	created, err := creater.CreateShared(ctx, key, obj, ttl)
	if err == nil {
		return created, nil
	}
	err = storageerrors.InterpretCreateError(err, w.resource.Scope.Resource.GroupResource(), name)
	err = rest.CheckGeneratedNameError(ctx, s.CreateStrategy, err, obj)
	if status, ok := err.(*apierrors.StatusError); ok && apierrors.IsAlreadyExists(err) && w.isDeleted(ctx, s, key) {
		status.ErrStatus.Message = fmt.Sprintf("object is being deleted: %s", status.ErrStatus.Message)
	}
	return nil, err
}

// isDeleted reports whether the object under a key has a deletion timestamp.
func (w *write) isDeleted(ctx context.Context, s *registry.Store, key string) bool {
	existing := s.NewFunc()
	if s.Storage.Get(ctx, key, storage.GetOptions{}, existing) != nil {
		return false
	}
	m, ok := existing.(metav1.Object)
	return ok && m.GetDeletionTimestamp() != nil
}
