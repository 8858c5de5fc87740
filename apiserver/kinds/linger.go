package kinds

import (
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage"
	storeerr "k8s.io/apiserver/pkg/storage/errors"
	"k8s.io/apiserver/pkg/util/dryrun"
)

// lingering is a store whose objects may stay for a while after their deletion was asked for.
type lingering[T Object] struct {
	*registry.Store
	linger func(obj T) (bool, error)
}

var errGo = errors.New("nothing holds the object")

// Delete marks the object as one that is to go, or removes it if nothing holds it any longer.
func (l lingering[T]) Delete(ctx context.Context, name string, validate rest.ValidateObjectFunc, options *metav1.DeleteOptions) (runtime.Object, bool, error) {
	key, err := l.KeyFunc(ctx, name)
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
	out := l.NewFunc()
	err = l.Storage.GuaranteedUpdate(ctx, key, out, false, &only, storage.SimpleUpdate(func(existing runtime.Object) (runtime.Object, error) {
		obj := existing.(T)
		if validate != nil {
			if err := validate(ctx, obj); err != nil {
				return nil, err
			}
		}
		stays, err := l.linger(obj)
		if err != nil {
			return nil, err
		}
		if !stays {
			return nil, errGo
		}
		if obj.GetDeletionTimestamp() == nil {
			now := metav1.Now()
			obj.SetDeletionTimestamp(&now)
		}
		return obj, nil
	}), dryrun.IsDryRun(options.DryRun), nil)
	switch {
	case err == nil:
		return out, false, nil
	case errors.Is(err, errGo):
		return l.Store.Delete(ctx, name, validate, options)
	}
	var status *apierrors.StatusError
	if errors.As(err, &status) {
		return nil, false, err
	}
	return nil, false, storeerr.InterpretDeleteError(err, l.DefaultQualifiedResource, name)
}
