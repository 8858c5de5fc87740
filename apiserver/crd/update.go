package crd

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/endpoints/handlers/fieldmanager"
	"k8s.io/apiserver/pkg/endpoints/metrics"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage"
	storeerr "k8s.io/apiserver/pkg/storage/errors"
	"k8s.io/apiserver/pkg/warning"

	"flyball.dev/apiserver/managedfields"
	"flyball.dev/apiserver/resource"
)

// updater serves the usual updates of custom resources in place of [registry.Store.Update]: those of
// [resource.UsualUpdate], of resources that are not being deleted. It takes the same steps in the same
// order. But it copies no object for validating admission, which does not change it, and does by itself
// what upstream's functions do to metadata that is plain, for which these decode the managed fields
// four times.
type updater struct{ *registry.Store }

// errDeleting is returned for a resource that is being deleted, which an update may remove.
var errDeleting = errors.New("the resource is being deleted")

// Update implements [rest.Updater].
func (u updater) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo, validateNew rest.ValidateObjectFunc,
	validate rest.ValidateObjectUpdateFunc, mayCreate bool, o *metav1.UpdateOptions) (runtime.Object, bool, error) {
	if usual, ok := info.(resource.UsualUpdate); !ok || !usual.Usual() || mayCreate || len(o.DryRun) > 0 {
		return u.Store.Update(ctx, name, info, validateNew, validate, mayCreate, o)
	}
	key, err := u.KeyFunc(ctx, name)
	if err != nil {
		return nil, false, err
	}
	preconditions := &storage.Preconditions{}
	if p := info.Preconditions(); p != nil {
		preconditions.UID, preconditions.ResourceVersion = p.UID, p.ResourceVersion
	}
	out := u.NewFunc()
	err = u.Storage.Storage.GuaranteedUpdate(ctx, key, out, false, preconditions,
		func(existing runtime.Object, _ storage.ResponseMeta) (runtime.Object, *uint64, error) {
			obj, err := u.updated(ctx, name, existing, info, validate)
			return obj, nil, err
		}, nil)
	switch {
	case errors.Is(err, errDeleting):
		return u.Store.Update(ctx, name, info, validateNew, validate, mayCreate, o)
	case err != nil:
		return nil, false, storeerr.InterpretUpdateError(err, u.qualified(ctx), name)
	}
	return out, false, nil
}

// qualified returns the resource that errors name.
func (u updater) qualified(ctx context.Context) schema.GroupResource {
	if info, ok := request.RequestInfoFrom(ctx); ok {
		return schema.GroupResource{Group: info.APIGroup, Resource: info.Resource}
	}
	return u.DefaultQualifiedResource
}

// updated returns what is stored in place of an object.
func (u updater) updated(ctx context.Context, name string, existing runtime.Object, info rest.UpdatedObjectInfo,
	validate rest.ValidateObjectUpdateFunc) (runtime.Object, error) {
	old, ok := existing.(*unstructured.Unstructured)
	if !ok || old.GetDeletionTimestamp() != nil {
		return nil, errDeleting
	}
	obj, err := info.UpdatedObject(ctx, old)
	if err != nil {
		return nil, err
	}
	if err := u.checkVersion(ctx, name, obj, old); err != nil {
		return nil, err
	}
	next, ok := obj.(*unstructured.Unstructured)
	if !ok || !u.prepare(ctx, next, old) {
		if err := rest.BeforeUpdate(u.UpdateStrategy, ctx, obj, old); err != nil {
			return nil, err
		}
	}
	if obj, err = ignoreTimestamps(ctx, obj, old); err != nil {
		return nil, err
	}
	if validate != nil {
		if err := validate(ctx, obj, old); err != nil {
			return nil, err
		}
	}
	return obj, nil
}

// checkVersion checks that the object was made of the version that is stored.
func (u updater) checkVersion(ctx context.Context, name string, obj, old runtime.Object) error {
	is, err := u.Storage.Versioner().ObjectResourceVersion(old)
	if err != nil {
		return err
	}
	switch version, err := u.Storage.Versioner().ObjectResourceVersion(obj); {
	case err != nil:
		return err
	case version == 0:
		resource := u.qualified(ctx)
		return apierrors.NewInvalid(schema.GroupKind{Group: resource.Group, Kind: resource.Resource}, name, field.ErrorList{
			field.Invalid(field.NewPath("metadata", "resourceVersion"), version, "must be specified for an update")})
	case version != is:
		return apierrors.NewConflict(u.qualified(ctx), name, errors.New(registry.OptimisticLockErrorMsg))
	}
	return nil
}

// prepare does what [rest.BeforeUpdate] does for an update that is valid for sure. It returns false for
// all others, for which that must be called.
func (u updater) prepare(ctx context.Context, obj, old *unstructured.Unstructured) bool {
	strategy, ok := u.UpdateStrategy.(interface {
		rest.RESTUpdateStrategy
		updates(ctx context.Context, obj, old runtime.Object) bool
	})
	namespace, found := request.NamespaceFrom(ctx)
	metadata, isMap := obj.Object["metadata"].(map[string]any)
	before, isMapToo := old.Object["metadata"].(map[string]any)
	if !ok || !found || !isMap || !isMapToo || before["generation"] == nil || before["creationTimestamp"] == nil ||
		textOf(metadata["namespace"]) != rest.ExpectedNamespaceForScope(namespace, strategy.NamespaceScoped()) {
		return false
	}
	metadata["generation"] = before["generation"]
	strategy.PrepareForUpdate(ctx, obj, old)
	metadata = obj.Object["metadata"].(map[string]any)
	if metadata["uid"] == nil {
		metadata["uid"] = before["uid"]
	}
	metadata["creationTimestamp"] = before["creationTimestamp"]
	if seconds := before["deletionGracePeriodSeconds"]; seconds != nil && metadata["deletionGracePeriodSeconds"] == nil {
		metadata["deletionGracePeriodSeconds"] = seconds
	}
	if !strategy.updates(ctx, obj, old) {
		return false
	}
	observeRatcheting()
	if metadata["finalizers"] != nil {
		for _, w := range strategy.WarningsOnUpdate(ctx, obj, old) {
			warning.AddWarning(ctx, "", w)
		}
	}
	return true
}

// ignoreTimestamps returns an object with the times of its managers as they were if nothing else has
// changed, by upstream's function. That decodes the managers first, and compares the rest only if they
// are equal but for the times; most updates change the rest.
func ignoreTimestamps(ctx context.Context, obj, old runtime.Object) (runtime.Object, error) {
	start := time.Now()
	a, ok := obj.(*unstructured.Unstructured)
	b, isToo := old.(*unstructured.Unstructured)
	if !ok || !isToo || equalButManagers(a.Object, b.Object) {
		return fieldmanager.IgnoreManagedFieldsTimestampsTransformer(ctx, obj, old)
	}
	metrics.RecordTimestampComparisonLatency("unequal_objects_fast", time.Since(start))
	return obj, nil
}

// equalButManagers reports whether two objects are equal but for their managed fields.
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
