package controllerutil

import (
	"context"
	"errors"
	"reflect"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"

	"flyball.dev/ctrl/client"
)

// OperationResult is the result of [CreateOrUpdate] or [CreateOrPatch].
type OperationResult string

const (
	// OperationResultNone means that nothing had to be written.
	OperationResultNone OperationResult = "unchanged"
	// OperationResultCreated means that the object was created.
	OperationResultCreated OperationResult = "created"
	// OperationResultUpdated means that the object was written, but not its status.
	OperationResultUpdated OperationResult = "updated"
	// OperationResultUpdatedStatus means that the object and its status were written.
	OperationResultUpdatedStatus OperationResult = "updatedStatus"
	// OperationResultUpdatedStatusOnly means that only the status was written.
	OperationResultUpdatedStatusOnly OperationResult = "updatedStatusOnly"
)

// MutateFn mutates an existing object into its desired state. It must not change the name and the
// namespace.
type MutateFn func() error

// CreateOrUpdate reads obj, by its name and namespace, calls f, and then creates obj if it does not
// exist or updates it if f has changed it. A nil f changes nothing.
//
// Changes of the status are not written if the resource has a status subresource. If f removes a
// value that the server defaults, every call updates the object.
func CreateOrUpdate(ctx context.Context, c client.Client, obj client.Object, f MutateFn) (OperationResult, error) {
	if created, err := getOrCreate(ctx, c, obj, f); created || err != nil {
		return resultOf(OperationResultCreated, err)
	}
	before := obj.DeepCopyObject()
	if err := mutate(f, obj); err != nil {
		return OperationResultNone, err
	}
	if equality.Semantic.DeepEqual(before, obj) {
		return OperationResultNone, nil
	}
	return resultOf(OperationResultUpdated, c.Update(ctx, obj))
}

// CreateOrPatch is like [CreateOrUpdate], but writes only what f changed, as JSON merge patches:
// one for the object, and one for its status if it changed. When it creates the object, its status
// is not written.
//
// Apart from its name and namespace, obj should be empty: the response is decoded into it.
func CreateOrPatch(ctx context.Context, c client.Client, obj client.Object, f MutateFn) (OperationResult, error) {
	if created, err := getOrCreate(ctx, c, obj, f); created || err != nil {
		return resultOf(OperationResultCreated, err)
	}
	before := obj.DeepCopyObject().(client.Object)
	if err := mutate(f, obj); err != nil {
		return OperationResultNone, err
	}
	specChanged, statusChanged, err := compare(before, obj)
	if err != nil {
		return OperationResultNone, err
	}
	// The response to the first patch overwrites obj.
	wanted := obj.DeepCopyObject().(client.Object)
	if specChanged {
		if err := c.Patch(ctx, obj, client.MergeFrom(before)); err != nil {
			return OperationResultNone, err
		}
	}
	switch {
	case !statusChanged && !specChanged:
		return OperationResultNone, nil
	case !statusChanged:
		return OperationResultUpdated, nil
	case !specChanged:
		return resultOf(OperationResultUpdatedStatusOnly, c.Status().Patch(ctx, obj, client.MergeFrom(before)))
	}
	// The second patch has only the changes of the status.
	base := obj.DeepCopyObject().(client.Object)
	if err := errors.Join(copyStatus(base, before), copyStatus(obj, wanted)); err != nil {
		return OperationResultUpdated, err
	}
	if err := c.Status().Patch(ctx, obj, client.MergeFrom(base)); err != nil {
		return OperationResultUpdated, err
	}
	return OperationResultUpdatedStatus, nil
}

// getOrCreate reads obj. If it does not exist, it calls f, creates obj and returns true.
func getOrCreate(ctx context.Context, c client.Client, obj client.Object, f MutateFn) (created bool, err error) {
	err = c.Get(ctx, client.ObjectKeyFromObject(obj), obj)
	if !apierrors.IsNotFound(err) {
		return false, err
	}
	if err := mutate(f, obj); err != nil {
		return false, err
	}
	return true, c.Create(ctx, obj)
}

func mutate(f MutateFn, obj client.Object) error {
	if f == nil {
		return nil
	}
	key := client.ObjectKeyFromObject(obj)
	if err := f(); err != nil {
		return err
	}
	if client.ObjectKeyFromObject(obj) != key {
		return errors.New("MutateFn cannot mutate object name and/or object namespace")
	}
	return nil
}

// compare reports whether the objects differ in their status and in other fields.
func compare(before, after client.Object) (rest, status bool, err error) {
	b, err := toMap(before)
	if err != nil {
		return false, false, err
	}
	a, err := toMap(after)
	if err != nil {
		return false, false, err
	}
	status = !reflect.DeepEqual(b["status"], a["status"])
	delete(b, "status")
	delete(a, "status")
	return !reflect.DeepEqual(b, a), status, nil
}

// copyStatus sets the status of dst to the status of src.
func copyStatus(dst, src client.Object) error {
	d, err := toMap(dst)
	if err != nil {
		return err
	}
	s, err := toMap(src)
	if err != nil {
		return err
	}
	if status, ok := s["status"]; ok {
		d["status"] = status
	} else {
		delete(d, "status")
	}
	return runtime.DefaultUnstructuredConverter.FromUnstructured(d, dst)
}

// toMap returns the content of a copy, because the content of an unstructured object is not one.
func toMap(obj client.Object) (map[string]any, error) {
	return runtime.DefaultUnstructuredConverter.ToUnstructured(obj.DeepCopyObject())
}

func resultOf(result OperationResult, err error) (OperationResult, error) {
	if err != nil {
		return OperationResultNone, err
	}
	return result, nil
}
