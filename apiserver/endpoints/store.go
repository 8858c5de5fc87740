package endpoints

import (
	"context"
	"errors"
	"reflect"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/endpoints/metrics"
	"k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage"
	storageerrors "k8s.io/apiserver/pkg/storage/errors"

	"flyball.dev/apiserver/equality"
	"flyball.dev/apiserver/managedfields"
	"flyball.dev/apiserver/resource"
)

// errTerminating is returned for an update of an object that is being deleted. The update may complete the deletion,
// which only the registry does.
var errTerminating = errors.New("the object is being deleted")

// stored is the registry of a resource with its storage.
type stored struct {
	*registry.Store
	updater resource.StorageUpdater
}

// storeOf returns the registry and the storage of a resource if objects can be updated without the registry: they do
// not expire, and no hook intercepts the writes.
func storeOf(s rest.Updater) (stored, bool) {
	store := registryOf(s)
	if store == nil {
		return stored{}, false
	}
	u, ok := store.Storage.Storage.(resource.StorageUpdater)
	return stored{store, u}, ok && store.TTLFunc == nil && store.Decorator == nil
}

// registryOf returns the registry of a resource, or nil if it has none, or one that is not known.
func registryOf(s any) *registry.Store {
	switch s := s.(type) {
	case *registry.Store:
		return s
	case resource.RegistryUpdater:
		return s.Registry()
	}
	return nil
}

// store updates an object like [registry.Store.Update], but copies neither the object for validating admission, which
// does not change it, nor the result.
//
//upstream:k8s.io/apiserver/pkg/registry/generic/registry.Store.Update
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
	finish := func(bool) {}
	result, err := s.updater.Update(ctx, key, preconditions,
		func(current runtime.Object, at storage.ResponseMeta) (runtime.Object, *uint64, error) {
			next, err := w.next(ctx, s.Store, info, current, at)
			if err != nil {
				return nil, nil, err
			}
			if s.BeginUpdate != nil {
				finish(false) // another write came between
				finish = func(bool) {}
				f, err := s.BeginUpdate(ctx, next, current, info.options)
				if err != nil {
					return nil, nil, err
				}
				finish = func(written bool) { f(ctx, written) }
			}
			return next, nil, prepare(ctx, s.UpdateStrategy, next, current, validate)
		})
	finish(err == nil)
	switch {
	case storage.IsNotFound(err) && s.UpdateStrategy.AllowCreateOnUpdate(ctx):
		return nil, errMissing
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
	at storage.ResponseMeta) (runtime.Object, error) {
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
	case version == at.ResourceVersion:
		return next, nil
	case version != 0:
		return nil, apierrors.NewConflict(w.resource.Scope.Resource.GroupResource(), w.name, errors.New(registry.OptimisticLockErrorMsg))
	case !s.UpdateStrategy.AllowUnconditionalUpdate(ctx):
		kind := schema.GroupKind{Group: w.resource.Scope.Resource.Group, Kind: w.resource.Scope.Resource.Resource}
		return nil, apierrors.NewInvalid(kind, w.name, field.ErrorList{
			field.Invalid(field.NewPath("metadata", "resourceVersion"), version, "must be specified for an update")})
	default:
		return next, versioner.UpdateObject(next, at.ResourceVersion)
	}
}

// prepare makes an object ready for the storage. It fails if the object is invalid or not admitted.
func prepare(ctx context.Context, strategy rest.RESTUpdateStrategy, next, current runtime.Object,
	validate rest.ValidateObjectUpdateFunc) error {
	if s, ok := strategy.(resource.BeforeUpdater); !ok || !s.BeforeUpdate(ctx, next, current) {
		if err := rest.BeforeUpdate(strategy, ctx, next, current); err != nil {
			return err
		}
	}
	keepTimestamps(next.(object), current.(object))
	if validate == nil {
		return nil
	}
	return validate(ctx, next, current)
}

// keepTimestamps copies the timestamps of the managed fields from the current object if the objects are otherwise
// equal, so that nothing is written.
//
//upstream:k8s.io/apiserver/pkg/endpoints/handlers/fieldmanager.IgnoreManagedFieldsTimestampsTransformer
func keepTimestamps(next, current object) {
	start, outcome := time.Now(), "unequal_objects_fast"
	defer func() { metrics.RecordTimestampComparisonLatency(outcome, time.Since(start)) }()
	if a, ok := next.(*unstructured.Unstructured); ok {
		// Decoding the managed fields takes longer than comparing the rest, which differs in most updates.
		if b, ok := current.(*unstructured.Unstructured); ok && !equalButManagers(a.Object, b.Object) {
			return
		}
	}
	now, was := next.GetManagedFields(), current.GetManagedFields()
	if len(now) != len(was) {
		return
	}
	later := false
	for i := range now {
		if !sameFields(&now[i], &was[i]) {
			return
		}
		later = later || !now[i].Time.Equal(was[i].Time)
	}
	if !later {
		return
	}
	outcome = "equal_objects"
	next.SetManagedFields(was)
	if !equality.Semantic(next, current) {
		outcome = "unequal_objects_slow"
		next.SetManagedFields(now)
	}
}

// sameFields reports whether two managed fields entries are equal, ignoring timestamps.
func sameFields(a, b *metav1.ManagedFieldsEntry) bool {
	return a.Manager == b.Manager && a.Operation == b.Operation && a.Subresource == b.Subresource &&
		a.APIVersion == b.APIVersion && a.FieldsType == b.FieldsType &&
		equality.Identical(reflect.ValueOf(a.FieldsV1), reflect.ValueOf(b.FieldsV1))
}

// equalButManagers reports whether two objects are equal, ignoring managed fields.
func equalButManagers(a, b map[string]any) bool {
	equal := func(a, b map[string]any, apart string) bool {
		for key, value := range a {
			if key == apart {
				continue
			}
			if other, ok := b[key]; !ok || !managedfields.EqualJSON(value, other) {
				return false
			}
		}
		for key := range b {
			if _, ok := a[key]; !ok && key != apart {
				return false
			}
		}
		return true
	}
	x, _ := a["metadata"].(map[string]any)
	y, _ := b["metadata"].(map[string]any)
	return equal(x, y, "managedFields") && equal(a, b, "metadata")
}
