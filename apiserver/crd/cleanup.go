package crd

import (
	"context"
	"errors"
	"fmt"
	"slices"
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

const (
	// retryCleanup is the delay before a failed cleanup is retried.
	retryCleanup = time.Second
	// terminatingPeriod is how long the condition Terminating stays true for a definition that other finalizers keep
	// after the deletion of its resources. Without the delay, clients that poll would not observe the condition.
	terminatingPeriod = time.Second
)

// beginCleanup starts the cleanup of a definition if it has not begun. The caller holds the lock.
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

// cleanUp deletes the resources of a definition, waits until they are removed, and removes the finalizer of the
// definition. It returns early when ctx ends, which happens when a user removes the finalizer.
func (k *Kinds) cleanUp(ctx context.Context, name string, uid types.UID) {
	for ctx.Err() == nil {
		err := k.tryCleanUp(ctx, name, uid)
		if err == nil || apierrors.IsNotFound(err) || ctx.Err() != nil {
			return
		}
		// This write may fail for the same reason as the deletion. Only the next attempt matters.
		_ = k.setTerminating(ctx, name, uid, apiextensions.ConditionTrue, "InstanceDeletionFailed", err.Error())
		select {
		case <-ctx.Done():
		case <-time.After(retryCleanup):
		}
	}
}

//upstream:k8s.io/apiextensions-apiserver/pkg/controller/finalizer.CRDFinalizer.sync
func (k *Kinds) tryCleanUp(ctx context.Context, name string, uid types.UID) error {
	resources := k.resourcesOf(name, uid)
	if resources == nil {
		return k.removeFinalizer(ctx, name, uid, "NeverEstablished", "resource was never established")
	}
	if err := k.setTerminating(ctx, name, uid, apiextensions.ConditionTrue, "InstanceDeletionInProgress",
		"CustomResource deletion is in progress"); err != nil {
		return err
	}
	for {
		err := deleteAll(ctx, resources)
		switch {
		case err == nil:
			return k.removeFinalizer(ctx, name, uid, "InstanceDeletionCompleted", "removed all instances")
		case !errors.Is(err, errWatchEnded) || ctx.Err() != nil:
			return err
		}
	}
}

// resourcesOf returns the storage of a definition's resources in the storage version, or nil.
func (k *Kinds) resourcesOf(name string, uid types.UID) *customresource.REST {
	k.mu.Lock()
	defer k.mu.Unlock()
	d := k.definitions[name]
	if d == nil || d.crd.UID != uid || d.serving == nil {
		return nil
	}
	return d.serving.stored
}

// setTerminating sets the condition Terminating of a definition.
func (k *Kinds) setTerminating(ctx context.Context, name string, uid types.UID,
	status apiextensions.ConditionStatus, reason, message string) error {
	return k.update(ctx, name, uid, func(crd *apiextensions.CustomResourceDefinition) {
		setCondition(crd, apiextensions.Terminating, status, reason, message)
	})
}

// removeFinalizer removes the cleanup finalizer of a definition without remaining resources.
func (k *Kinds) removeFinalizer(ctx context.Context, name string, uid types.UID, reason, message string) error {
	if k.hasOtherFinalizers(name) {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(terminatingPeriod):
		}
	}
	return k.update(ctx, name, uid, func(crd *apiextensions.CustomResourceDefinition) {
		setCondition(crd, apiextensions.Terminating, apiextensions.ConditionFalse, reason, message)
		apiextensions.CRDRemoveFinalizer(crd, apiextensions.CustomResourceCleanupFinalizer)
	})
}

// hasOtherFinalizers reports whether a definition has finalizers in addition to the cleanup finalizer.
func (k *Kinds) hasOtherFinalizers(name string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	d := k.definitions[name]
	return d != nil && slices.ContainsFunc(d.crd.Finalizers, func(f string) bool {
		return f != apiextensions.CustomResourceCleanupFinalizer
	})
}

// update changes the status or the finalizers of a definition if it has the given UID.
func (k *Kinds) update(ctx context.Context, name string, uid types.UID,
	change func(*apiextensions.CustomResourceDefinition)) error {
	info := rest.DefaultUpdatedObjectInfo(nil, func(_ context.Context, _, old runtime.Object) (runtime.Object, error) {
		crd := old.DeepCopyObject().(*apiextensions.CustomResourceDefinition)
		if crd.UID != uid {
			return nil, apierrors.NewNotFound(apiextensions.Resource("customresourcedefinitions"), name)
		}
		change(crd)
		return crd, nil
	})
	_, _, err := k.status.Update(ctx, name, info, rest.ValidateAllObjectFunc, rest.ValidateAllObjectUpdateFunc,
		false, &metav1.UpdateOptions{})
	return err
}

// errWatchEnded means that the watch has ended and the cleanup must list the resources again.
var errWatchEnded = errors.New("watch ended")

// deleteAll deletes all resources and returns when they are removed. Resources with finalizers remain until other
// clients remove the finalizers.
//
//upstream:k8s.io/apiextensions-apiserver/pkg/controller/finalizer.CRDFinalizer.deleteInstances
func deleteAll(ctx context.Context, resources *customresource.REST) error {
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

// remove deletes a resource, and adds it to left if it still exists afterwards.
func remove(ctx context.Context, resources *customresource.REST, u *unstructured.Unstructured,
	left map[types.NamespacedName]bool) error {
	uid := u.GetUID()
	_, gone, err := resources.Delete(request.WithNamespace(ctx, u.GetNamespace()), u.GetName(), rest.ValidateAllObjectFunc,
		&metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
	switch {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err): // removed, or also created again
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
