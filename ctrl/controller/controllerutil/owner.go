// Package controllerutil has helpers for reconcilers: for owner references and finalizers, and to
// create or update objects.
//
// The functions only modify their arguments, except [CreateOrUpdate] and [CreateOrPatch], which
// write to the API server.
package controllerutil

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/client/apiutil"
)

// AlreadyOwnedError is the error if an object has another controller already.
type AlreadyOwnedError struct {
	Object metav1.Object         // the object that was to be owned
	Owner  metav1.OwnerReference // its present controller
}

func (e *AlreadyOwnedError) Error() string {
	return fmt.Sprintf("Object %s/%s is already owned by another %s controller %s",
		e.Object.GetNamespace(), e.Object.GetName(), e.Owner.Kind, e.Owner.Name)
}

// OwnerReferenceOption changes the owner reference before it is set.
type OwnerReferenceOption func(*metav1.OwnerReference)

// WithBlockOwnerDeletion sets whether the owned object blocks a foreground deletion of the owner.
func WithBlockOwnerDeletion(blockOwnerDeletion bool) OwnerReferenceOption {
	return func(ref *metav1.OwnerReference) { ref.BlockOwnerDeletion = &blockOwnerDeletion }
}

// SetControllerReference makes owner the controller of controlled: the one owner that manages it
// and is reconciled when it changes. An existing reference to owner is updated.
//
// It returns an [AlreadyOwnedError] if another object is the controller, and an error if owner is
// namespaced and controlled is not in its namespace.
func SetControllerReference(
	owner, controlled metav1.Object, scheme *runtime.Scheme, opts ...OwnerReferenceOption,
) error {
	ref, err := ownerReference(owner, controlled, scheme, "SetControllerReference")
	if err != nil {
		return err
	}
	ref.Controller = ptr.To(true)
	ref.BlockOwnerDeletion = ptr.To(true)
	for _, opt := range opts {
		opt(&ref)
	}
	if present := metav1.GetControllerOf(controlled); present != nil && !sameOwner(*present, ref) {
		return &AlreadyOwnedError{Object: controlled, Owner: *present}
	}
	setOwner(controlled, ref)
	return nil
}

// SetOwnerReference makes owner an owner of object, but not the controller. An existing reference
// to owner is replaced. It returns an error if owner is namespaced and object is not in its
// namespace.
func SetOwnerReference(owner, object metav1.Object, scheme *runtime.Scheme, opts ...OwnerReferenceOption) error {
	ref, err := ownerReference(owner, object, scheme, "SetOwnerReference")
	if err != nil {
		return err
	}
	for _, opt := range opts {
		opt(&ref)
	}
	setOwner(object, ref)
	return nil
}

// RemoveOwnerReference removes the reference to owner from object. It returns an error if there is
// none.
func RemoveOwnerReference(owner, object metav1.Object, scheme *runtime.Scheme) error {
	refs := object.GetOwnerReferences()
	if len(refs) == 0 {
		return fmt.Errorf("%T does not have any owner references", object)
	}
	i, err := findOwner(refs, owner, scheme, "RemoveOwnerReference")
	if err != nil {
		return err
	}
	if i < 0 {
		return fmt.Errorf("%T does not have an owner reference for %T", object, owner)
	}
	object.SetOwnerReferences(slices.Delete(slices.Clone(refs), i, i+1))
	return nil
}

// RemoveControllerReference removes the reference to owner, which must be the controller of object.
func RemoveControllerReference(owner, object metav1.Object, scheme *runtime.Scheme) error {
	if !HasControllerReference(object) {
		return fmt.Errorf("%T does not have a owner reference with controller equals true", object)
	}
	refs := object.GetOwnerReferences()
	i, err := findOwner(refs, owner, scheme, "RemoveControllerReference")
	switch {
	case err != nil:
		return err
	case i < 0:
		return fmt.Errorf("%T does not have an controller reference for %T", object, owner)
	case !ptr.Deref(refs[i].Controller, false):
		return fmt.Errorf("%T owner is not the controller reference for %T", owner, object)
	}
	object.SetOwnerReferences(slices.Delete(slices.Clone(refs), i, i+1))
	return nil
}

// HasControllerReference reports whether object has a controller.
func HasControllerReference(object metav1.Object) bool {
	return metav1.GetControllerOfNoCopy(object) != nil
}

// HasOwnerReference reports whether ownerRefs have a reference to obj, by group, kind and name.
func HasOwnerReference(ownerRefs []metav1.OwnerReference, obj client.Object, scheme *runtime.Scheme) (bool, error) {
	i, err := findOwner(ownerRefs, obj, scheme, "HasOwnerReference")
	return i >= 0, err
}

// ownerReference returns the reference to owner, or an error if owner must not own object.
func ownerReference(owner, object metav1.Object, scheme *runtime.Scheme, caller string) (metav1.OwnerReference, error) {
	if ns := owner.GetNamespace(); ns != "" && ns != object.GetNamespace() {
		if object.GetNamespace() == "" {
			return metav1.OwnerReference{}, fmt.Errorf(
				"cluster-scoped resource must not have a namespace-scoped owner, owner's namespace %s", ns)
		}
		return metav1.OwnerReference{}, fmt.Errorf(
			"cross-namespace owner references are disallowed, owner's namespace %s, obj's namespace %s",
			ns, object.GetNamespace())
	}
	gvk, err := kindOf(owner, scheme, caller)
	if err != nil {
		return metav1.OwnerReference{}, err
	}
	return metav1.OwnerReference{
		APIVersion: gvk.GroupVersion().String(),
		Kind:       gvk.Kind,
		Name:       owner.GetName(),
		UID:        owner.GetUID(),
	}, nil
}

// setOwner replaces the reference to the same owner, or adds ref.
func setOwner(object metav1.Object, ref metav1.OwnerReference) {
	refs := slices.Clone(object.GetOwnerReferences())
	if i := slices.IndexFunc(refs, func(r metav1.OwnerReference) bool { return sameOwner(r, ref) }); i >= 0 {
		refs[i] = ref
	} else {
		refs = append(refs, ref)
	}
	object.SetOwnerReferences(refs)
}

func findOwner(refs []metav1.OwnerReference, owner metav1.Object, scheme *runtime.Scheme, caller string) (int, error) {
	gvk, err := kindOf(owner, scheme, caller)
	if err != nil {
		return -1, err
	}
	ref := metav1.OwnerReference{APIVersion: gvk.GroupVersion().String(), Kind: gvk.Kind, Name: owner.GetName()}
	return slices.IndexFunc(refs, func(r metav1.OwnerReference) bool { return sameOwner(r, ref) }), nil
}

func kindOf(owner metav1.Object, scheme *runtime.Scheme, caller string) (schema.GroupVersionKind, error) {
	obj, ok := owner.(runtime.Object)
	if !ok {
		return schema.GroupVersionKind{}, fmt.Errorf("%T is not a runtime.Object, cannot call %s", owner, caller)
	}
	return apiutil.GVKForObject(obj, scheme)
}

// sameOwner compares group, kind and name. The version and the UID may differ, as of an owner that
// was deleted and created again.
func sameOwner(a, b metav1.OwnerReference) bool {
	ga, errA := schema.ParseGroupVersion(a.APIVersion)
	gb, errB := schema.ParseGroupVersion(b.APIVersion)
	return errA == nil && errB == nil && ga.Group == gb.Group && a.Kind == b.Kind && a.Name == b.Name
}
