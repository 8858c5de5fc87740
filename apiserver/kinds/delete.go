package kinds

import (
	"context"
	"errors"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage"
	storeerr "k8s.io/apiserver/pkg/storage/errors"
	"k8s.io/apiserver/pkg/util/dryrun"

	"flyball.dev/apiserver/resource"
)

// deleting is a store that calls the kind's BeforeDelete.
type deleting struct {
	*registry.Store
	before func(ctx context.Context, name string, options *metav1.DeleteOptions) error
}

var _, _ resource.RegistryUpdater = deleting{}, terminating{}

// Registry implements [resource.RegistryUpdater].
func (d deleting) Registry() *registry.Store { return d.Store }

func (d deleting) Delete(ctx context.Context, name string, validate rest.ValidateObjectFunc,
	options *metav1.DeleteOptions) (runtime.Object, bool, error) {
	if err := d.before(ctx, name, options); err != nil {
		return nil, false, err
	}
	return d.Store.Delete(ctx, name, validate, options)
}

func (d deleting) DeleteCollection(ctx context.Context, validate rest.ValidateObjectFunc,
	options *metav1.DeleteOptions, list *metainternalversion.ListOptions) (runtime.Object, error) {
	if err := d.before(ctx, "", options); err != nil {
		return nil, err
	}
	return d.Store.DeleteCollection(ctx, validate, options, list)
}

// terminating is a store with two-phase deletes: an object may be terminating without finalizers in
// its metadata, until an update completes the deletion.
//
//upstream:pkg/registry/core/namespace/storage.REST
type terminating struct {
	*registry.Store
	terminate func(obj Object) bool
}

// Registry implements [resource.RegistryUpdater].
func (t terminating) Registry() *registry.Store { return t.Store }

var errRemove = errors.New("the object can be removed at once")

// Delete marks the object as terminating, or removes it if its kind does not need two phases. An
// object that is terminating already is returned as it is.
func (t terminating) Delete(ctx context.Context, name string, validate rest.ValidateObjectFunc,
	options *metav1.DeleteOptions) (runtime.Object, bool, error) {
	key, err := t.KeyFunc(ctx, name)
	if err != nil {
		return nil, false, err
	}
	if options == nil {
		options = metav1.NewDeleteOptions(0)
	}
	var only storage.Preconditions
	if p := options.Preconditions; p != nil {
		only = storage.Preconditions{UID: p.UID, ResourceVersion: p.ResourceVersion}
	}
	out := t.NewFunc()
	err = t.Storage.GuaranteedUpdate(ctx, key, out, false, &only,
		storage.SimpleUpdate(func(existing runtime.Object) (runtime.Object, error) {
			obj := existing.(Object)
			if validate != nil {
				if err := validate(ctx, obj); err != nil {
					return nil, err
				}
			}
			if !t.terminate(obj) {
				return nil, errRemove
			}
			if obj.GetDeletionTimestamp() == nil {
				now := metav1.Now()
				obj.SetDeletionTimestamp(&now)
				propagate(obj, options)
			}
			return obj, nil
		}), dryrun.IsDryRun(options.DryRun), nil)
	switch {
	case err == nil:
		return out, false, nil
	case errors.Is(err, errRemove):
		return t.Store.Delete(ctx, name, validate, options)
	}
	var status *apierrors.StatusError
	if errors.As(err, &status) {
		return nil, false, err
	}
	return nil, false, storeerr.InterpretDeleteError(err, t.DefaultQualifiedResource, name)
}

// propagate sets the finalizers for the propagation policy, as the registry does for other kinds.
//
//upstream:k8s.io/apiserver/pkg/registry/generic/registry.deletionFinalizersForGarbageCollection
func propagate(obj metav1.Object, options *metav1.DeleteOptions) {
	var orphan, foreground bool
	switch {
	//lint:ignore SA1019 clients may still send OrphanDependents
	case options.OrphanDependents != nil:
		//lint:ignore SA1019 clients may still send OrphanDependents
		orphan, foreground = *options.OrphanDependents, !*options.OrphanDependents
	case options.PropagationPolicy != nil:
		orphan = *options.PropagationPolicy == metav1.DeletePropagationOrphan
		foreground = *options.PropagationPolicy == metav1.DeletePropagationForeground
	default:
		return
	}
	finalizers := slices.DeleteFunc(slices.Clone(obj.GetFinalizers()), func(f string) bool {
		return f == metav1.FinalizerOrphanDependents || f == metav1.FinalizerDeleteDependents
	})
	if orphan {
		finalizers = append(finalizers, metav1.FinalizerOrphanDependents)
	}
	if foreground {
		finalizers = append(finalizers, metav1.FinalizerDeleteDependents)
	}
	obj.SetFinalizers(finalizers)
}
