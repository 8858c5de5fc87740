package crd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apiextensions-apiserver/pkg/registry/customresource"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metainternal "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
)

// retryCleanup is the time after which a cleanup that met an error goes on.
const retryCleanup = time.Second

// beginCleanup starts the deletion of a definition's resources, if it has not begun. The lock is held.
func (k *Kinds) beginCleanup(name string, uid types.UID, g *instanceGate) {
	drained, first := g.close()
	if !first || g.ctx.Err() != nil {
		return
	}
	k.work.Go(func() {
		select {
		case <-drained:
			k.cleanUp(g.ctx, name, uid)
		case <-g.ctx.Done():
		}
	})
}

// cleanUp deletes the resources of a definition, waits until the last of them has gone, and lets the
// definition go. It ends early with ctx, as when somebody lets the definition go by hand.
func (k *Kinds) cleanUp(ctx context.Context, name string, uid types.UID) {
	for ctx.Err() == nil {
		err := k.tryCleanUp(ctx, name, uid)
		if err == nil || apierrors.IsNotFound(err) || ctx.Err() != nil {
			return
		}
		// Saying so may fail for the same reason; what counts is the next try.
		_ = k.report(ctx, name, uid, apiextensions.ConditionTrue, "InstanceDeletionFailed", err.Error())
		select {
		case <-ctx.Done():
		case <-time.After(retryCleanup):
		}
	}
}

func (k *Kinds) tryCleanUp(ctx context.Context, name string, uid types.UID) error {
	resources := k.resourcesOf(name, uid)
	if resources == nil {
		return k.release(ctx, name, uid, "NeverEstablished", "resource was never established")
	}
	if err := k.report(ctx, name, uid, apiextensions.ConditionTrue, "InstanceDeletionInProgress", "CustomResource deletion is in progress"); err != nil {
		return err
	}
	for {
		err := empty(ctx, resources)
		switch {
		case err == nil:
			return k.release(ctx, name, uid, "InstanceDeletionCompleted", "removed all instances")
		case !errors.Is(err, errWatchEnded) || ctx.Err() != nil:
			return err
		}
	}
}

// resourcesOf returns the way to a definition's resources in the version they are stored in, or nil.
func (k *Kinds) resourcesOf(name string, uid types.UID) *customresource.REST {
	k.mu.Lock()
	defer k.mu.Unlock()
	d := k.definitions[name]
	if d == nil || d.crd.UID != uid || d.serving == nil {
		return nil
	}
	return d.serving.stored
}

// report sets the definition's Terminating condition.
func (k *Kinds) report(ctx context.Context, name string, uid types.UID, status apiextensions.ConditionStatus, reason, message string) error {
	return k.revise(ctx, name, uid, func(crd *apiextensions.CustomResourceDefinition) {
		setCondition(crd, apiextensions.Terminating, status, reason, message)
	})
}

// release lets a definition go whose resources have gone.
func (k *Kinds) release(ctx context.Context, name string, uid types.UID, reason, message string) error {
	return k.revise(ctx, name, uid, func(crd *apiextensions.CustomResourceDefinition) {
		setCondition(crd, apiextensions.Terminating, apiextensions.ConditionFalse, reason, message)
		apiextensions.CRDRemoveFinalizer(crd, apiextensions.CustomResourceCleanupFinalizer)
	})
}

// revise changes the status or the finalizers of the definition with that UID.
func (k *Kinds) revise(ctx context.Context, name string, uid types.UID, change func(*apiextensions.CustomResourceDefinition)) error {
	info := rest.DefaultUpdatedObjectInfo(nil, func(_ context.Context, _, old runtime.Object) (runtime.Object, error) {
		crd := old.DeepCopyObject().(*apiextensions.CustomResourceDefinition)
		if crd.UID != uid {
			return nil, apierrors.NewNotFound(apiextensions.Resource("customresourcedefinitions"), name)
		}
		change(crd)
		return crd, nil
	})
	_, _, err := k.status.Update(ctx, name, info, rest.ValidateAllObjectFunc, rest.ValidateAllObjectUpdateFunc, false, &metav1.UpdateOptions{})
	return err
}

// errWatchEnded says that it is not known what became of some resources.
var errWatchEnded = errors.New("watch ended")

// empty deletes all resources and returns when the last of them has gone, which may take as long as
// their finalizers want.
func empty(ctx context.Context, resources *customresource.REST) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	obj, err := resources.List(ctx, &metainternal.ListOptions{})
	if err != nil {
		return fmt.Errorf("could not list instances: %w", err)
	}
	list := obj.(*unstructured.UnstructuredList)
	left := map[types.NamespacedName]bool{}
	for i := range list.Items {
		if err := remove(ctx, resources, &list.Items[i], left); err != nil {
			return err
		}
	}
	if len(left) == 0 {
		return nil
	}
	w, err := resources.Watch(ctx, &metainternal.ListOptions{ResourceVersion: list.GetResourceVersion()})
	if err != nil {
		return fmt.Errorf("could not watch instances: %w", err)
	}
	defer w.Stop()
	for len(left) > 0 {
		e, ok := <-w.ResultChan()
		if !ok {
			return errWatchEnded
		}
		if e.Type == watch.Error {
			if err := apierrors.FromObject(e.Object); !apierrors.IsResourceExpired(err) {
				return fmt.Errorf("could not watch instances: %w", err)
			}
			return errWatchEnded
		}
		if m, err := meta.Accessor(e.Object); err == nil && e.Type == watch.Deleted {
			delete(left, nameOf(m))
		}
	}
	return nil
}

// remove asks for the deletion of one resource, and notes in left if it is not done at once.
func remove(ctx context.Context, resources *customresource.REST, u *unstructured.Unstructured, left map[types.NamespacedName]bool) error {
	uid := u.GetUID()
	_, gone, err := resources.Delete(request.WithNamespace(ctx, u.GetNamespace()), u.GetName(), rest.ValidateAllObjectFunc,
		&metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
	switch {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err): // gone, or gone and made again
		return nil
	case err != nil:
		return fmt.Errorf("could not issue all deletes: %w", err)
	case !gone:
		left[nameOf(u)] = true
	}
	return nil
}

func nameOf(u metav1.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: u.GetNamespace(), Name: u.GetName()}
}
