// Package controllerutil has the small things that reconcilers do all the time: owner references,
// finalizers, and making an object be as it should.
//
// The functions change only the objects they are given, except [CreateOrUpdate] and
// [CreateOrPatch], which write to the cluster.
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

// AlreadyOwnedError says that an object cannot get a controller because it has another.
type AlreadyOwnedError struct {
	Object metav1.Object         // the object that was to be owned
	Owner  metav1.OwnerReference // its present controller
}

func (e *AlreadyOwnedError) Error() string {
	return fmt.Sprintf("Object %s/%s is already owned by another %s controller %s",
		e.Object.GetNamespace(), e.Object.GetName(), e.Owner.Kind, e.Owner.Name)
}

// OwnerReferenceOption changes the reference that is about to be set.
type OwnerReferenceOption func(*metav1.OwnerReference)

// WithBlockOwnerDeletion says whether the owned object holds up a foreground deletion of the owner.
func WithBlockOwnerDeletion(blockOwnerDeletion bool) OwnerReferenceOption {
	return func(ref *metav1.OwnerReference) { ref.BlockOwnerDeletion = &blockOwnerDeletion }
}

// SetControllerReference makes owner the controller of controlled: the one owner that manages it,
// with which it is garbage collected, and which is reconciled when it changes. A reference that is
// there already is brought up to date.
//
// It returns an [AlreadyOwnedError] if another object is the controller, and an error if owner could
// not own controlled, since a namespaced owner can own only objects of its own namespace.
func SetControllerReference(owner, controlled metav1.Object, scheme *runtime.Scheme, opts ...OwnerReferenceOption) error {
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

// SetOwnerReference makes owner an owner of object, without making it the controller. A reference
// that is there already is replaced. The error is that of [SetControllerReference].
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

// RemoveOwnerReference takes owner from the owners of object. It returns an error if it is none.
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

// RemoveControllerReference takes owner, which must be the controller of object, from its owners.
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

// HasOwnerReference reports whether obj is among the owners: by group, kind and name.
func HasOwnerReference(ownerRefs []metav1.OwnerReference, obj client.Object, scheme *runtime.Scheme) (bool, error) {
	i, err := findOwner(ownerRefs, obj, scheme, "HasOwnerReference")
	return i >= 0, err
}

// ownerReference is the plain reference to owner, if owner may own object.
func ownerReference(owner, object metav1.Object, scheme *runtime.Scheme, caller string) (metav1.OwnerReference, error) {
	if ns := owner.GetNamespace(); ns != "" && ns != object.GetNamespace() {
		if object.GetNamespace() == "" {
			return metav1.OwnerReference{}, fmt.Errorf(
				"cluster-scoped resource must not have a namespace-scoped owner, owner's namespace %s", ns)
		}
		return metav1.OwnerReference{}, fmt.Errorf(
			"cross-namespace owner references are disallowed, owner's namespace %s, obj's namespace %s", ns, object.GetNamespace())
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

// sameOwner compares group, kind and name. The version and the UID may differ: an owner that was
// made again takes the place of its predecessor.
func sameOwner(a, b metav1.OwnerReference) bool {
	ga, errA := schema.ParseGroupVersion(a.APIVersion)
	gb, errB := schema.ParseGroupVersion(b.APIVersion)
	return errA == nil && errB == nil && ga.Group == gb.Group && a.Kind == b.Kind && a.Name == b.Name
}
