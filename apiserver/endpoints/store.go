package endpoints

import (
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/endpoints/handlers/fieldmanager"
	"k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage"
	storageerrors "k8s.io/apiserver/pkg/storage/errors"
)

// errTerminating is returned for an update of an object that is being deleted. It may complete the
// deletion, which is left to the registry.
var errTerminating = errors.New("the object is being deleted")

// registered is a storage that updates objects as its registry does.
type registered interface{ Registry() *registry.Store }

// updater is a storage.Interface that can update an object without a copy of the result.
type updater interface {
	Update(ctx context.Context, key string, preconditions *storage.Preconditions,
		update storage.UpdateFunc) (runtime.Object, error)
}

// stored are the registry of a resource and its storage.
type stored struct {
	*registry.Store
	updater updater
}

// storeOf returns where a storage keeps its objects, if these can be updated without its registry:
// they do not expire, and nothing intercepts the writes.
func storeOf(s rest.Updater) (stored, bool) {
	store, ok := s.(*registry.Store)
	if !ok {
		r, ok := s.(registered)
		if !ok {
			return stored{}, false
		}
		store = r.Registry()
	}
	u, ok := store.Storage.Storage.(updater)
	return stored{store, u}, ok && store.TTLFunc == nil && store.Decorator == nil
}

// store updates an object as [registry.Store.Update] does, but copies neither the object for
// validating admission, which does not change it, nor the result.
func (w *write) store(ctx context.Context, s stored, info *replacement,
	validate rest.ValidateObjectUpdateFunc) (runtime.Object, error) {
	key, err := s.KeyFunc(ctx, w.name)
	if err != nil {
		return nil, err
	}
	preconditions := &storage.Preconditions{}
	if p := info.Preconditions(); p != nil {
		preconditions.UID = p.UID
	}
	result, err := s.updater.Update(ctx, key, preconditions,
		func(current runtime.Object, meta storage.ResponseMeta) (runtime.Object, *uint64, error) {
			next, err := w.next(ctx, s.Store, info, current, meta)
			if err != nil {
				return nil, nil, err
			}
			finish := func(bool) {}
			if s.BeginUpdate != nil {
				f, err := s.BeginUpdate(ctx, next, current, info.options)
				if err != nil {
					return nil, nil, err
				}
				finish = func(written bool) { f(ctx, written) }
			}
			next, err = prepared(ctx, s.UpdateStrategy, next, current, validate)
			finish(err == nil)
			return next, nil, err
		})
	switch {
	case storage.IsNotFound(err) && s.UpdateStrategy.AllowCreateOnUpdate(ctx):
		return nil, errUnusual
	case err != nil:
		return nil, storageerrors.InterpretUpdateError(err, w.resource.Scope.Resource.GroupResource(), w.name)
	}
	if s.AfterUpdate != nil {
		s.AfterUpdate(result, info.options)
	}
	return result, nil
}

// next returns the object that replaces the current one, with its resource version.
func (w *write) next(ctx context.Context, s *registry.Store, info *replacement, current runtime.Object,
	meta storage.ResponseMeta) (runtime.Object, error) {
	if old, ok := current.(object); !ok || old.GetDeletionTimestamp() != nil {
		return nil, errTerminating
	}
	next, err := info.UpdatedObject(ctx, current)
	if err != nil {
		return nil, err
	}
	versioner := s.Storage.Versioner()
	version, err := versioner.ObjectResourceVersion(next)
	switch {
	case err != nil:
		return nil, err
	case version == meta.ResourceVersion:
		return next, nil
	case version != 0:
		return nil, apierrors.NewConflict(w.resource.Scope.Resource.GroupResource(), w.name, errors.New(registry.OptimisticLockErrorMsg))
	case !s.UpdateStrategy.AllowUnconditionalUpdate(ctx):
		return nil, errUnusual
	default:
		return next, versioner.UpdateObject(next, meta.ResourceVersion)
	}
}

// prepared returns an object as it is to be stored, if it is valid and admitted.
func prepared(ctx context.Context, strategy rest.RESTUpdateStrategy, next, current runtime.Object,
	validate rest.ValidateObjectUpdateFunc) (runtime.Object, error) {
	if err := rest.BeforeUpdate(strategy, ctx, next, current); err != nil {
		return nil, err
	}
	next, err := fieldmanager.IgnoreManagedFieldsTimestampsTransformer(ctx, next, current)
	if err != nil || validate == nil {
		return next, err
	}
	return next, validate(ctx, next, current)
}
