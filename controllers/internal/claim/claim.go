// Package claim determines which objects a controller owns. It adopts objects without a controller that match the
// selector, and releases owned objects that no longer match.
package claim

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"flyball.dev/ctrl/client"
)

// Classified is the result of [Classify].
type Classified[T client.Object] struct {
	Owned   []T // owned and matching
	Adopt   []T // matching, without a controller
	Release []T // owned, but no longer matching
}

// Classify divides objects into the objects that owner keeps, adopts and releases. An object that a filter rejects counts
// as not matching the selector. Objects that are being deleted are not adopted. An owner that is being deleted neither adopts
// nor releases. Classify does not change the objects.
//
//upstream:pkg/controller.BaseControllerRefManager.ClaimObject
func Classify[T client.Object](owner metav1.Object, selector labels.Selector, objects []T, filters ...func(T) bool) Classified[T] {
	var s Classified[T]
	for _, o := range objects {
		matches := selector.Matches(labels.Set(o.GetLabels())) &&
			!slices.ContainsFunc(filters, func(accepts func(T) bool) bool { return !accepts(o) })
		switch ref := metav1.GetControllerOfNoCopy(o); {
		case ref != nil && ref.UID != owner.GetUID():
		case ref != nil && matches:
			s.Owned = append(s.Owned, o)
		case owner.GetDeletionTimestamp() != nil:
		case ref != nil:
			s.Release = append(s.Release, o)
		case matches && o.GetDeletionTimestamp() == nil:
			s.Adopt = append(s.Adopt, o)
		}
	}
	return s
}

// OwnerDeleted is the error for an owner that was or is being deleted, unlike in the cache. The owner must not adopt or
// create objects.
type OwnerDeleted struct{ Owner client.ObjectKey }

func (e OwnerDeleted) Error() string { return e.Owner.String() + " was or is being deleted" }

// IgnoreOwnerDeleted returns nil for [OwnerDeleted], and other errors unchanged. There is nothing to reconcile for a
// deleted owner.
func IgnoreOwnerDeleted(err error) error {
	if errors.As(err, &OwnerDeleted{}) {
		return nil
	}
	return err
}

// Claim adopts and releases objects in owner's namespace, as [Classify] determines, and returns the objects that owner
// then owns. They have the kind of the list, which must have an [Index]. An object that a filter rejects counts as not
// matching the selector. Before Claim adopts an object, it confirms by a live read that owner exists and is not being
// deleted.
//
// The error is [OwnerDeleted], or a conflict if an object has changed since it was read. After an error the owned objects
// are unknown.
//
//upstream:pkg/controller.BaseControllerRefManager.ClaimObject
func Claim[T client.Object](ctx context.Context, c client.Client, live client.Reader, owner client.Object,
	kind schema.GroupVersionKind, selector labels.Selector, list client.ObjectList, filters ...func(T) bool) ([]T, error) {
	objects, err := Candidates[T](ctx, c, list, owner, selector)
	if err != nil {
		return nil, err
	}
	return Among(ctx, c, live, owner, kind, selector, objects, filters...)
}

// Among is [Claim] for some of the [Candidates]. The others are neither adopted nor released.
//
//upstream:pkg/controller.PodControllerRefManager.ClaimPods
func Among[T client.Object](ctx context.Context, c client.Client, live client.Reader, owner client.Object,
	kind schema.GroupVersionKind, selector labels.Selector, objects []T, filters ...func(T) bool) ([]T, error) {
	s := Classify(owner, selector, objects, filters...)
	owned := s.Owned
	var errs []error
	for _, o := range s.Release {
		errs = append(errs, patchOwnerReferences(ctx, c, o, without(o.GetOwnerReferences(), owner.GetUID()),
			withoutFinalizer(o.GetFinalizers(), finalizers[kind])))
	}
	if len(s.Adopt) > 0 {
		if err := CheckOwner(ctx, live, owner, kind); err != nil {
			return nil, err
		}
		ref := *metav1.NewControllerRef(owner, kind)
		for _, o := range s.Adopt {
			owners := append([]metav1.OwnerReference{ref}, without(o.GetOwnerReferences(), owner.GetUID())...)
			err := patchOwnerReferences(ctx, c, o, owners, withFinalizer(o.GetFinalizers(), finalizers[kind]))
			if err == nil && metav1.IsControlledBy(o, owner) {
				owned = append(owned, o)
			}
			errs = append(errs, err)
		}
	}
	return owned, errors.Join(errs...)
}

// CheckOwner returns OwnerDeleted if the owner does not exist or is being deleted.
//
//upstream:pkg/controller.RecheckDeletionTimestamp
func CheckOwner(ctx context.Context, live client.Reader, owner client.Object, kind schema.GroupVersionKind) error {
	now := &metav1.PartialObjectMetadata{}
	now.SetGroupVersionKind(kind)
	err := live.Get(ctx, client.ObjectKeyFromObject(owner), now)
	if apierrors.IsNotFound(err) || err == nil && (now.UID != owner.GetUID() || now.DeletionTimestamp != nil) {
		return OwnerDeleted{client.ObjectKeyFromObject(owner)}
	}
	return err
}

// finalizers has, by kind of owner, the finalizer of the owned objects. Adoption adds the finalizer, and release removes
// it.
var finalizers = map[schema.GroupVersionKind]string{
	batchv1.SchemeGroupVersion.WithKind("Job"): batchv1.JobTrackingFinalizer,
}

// withFinalizer returns a list that has a finalizer, unless that is "".
func withFinalizer(list []string, finalizer string) []string {
	if finalizer == "" || slices.Contains(list, finalizer) {
		return list
	}
	return append(slices.Clone(list), finalizer)
}

// withoutFinalizer returns a list without a finalizer.
func withoutFinalizer(list []string, finalizer string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(f string) bool { return f == finalizer })
}

// patchOwnerReferences replaces the owner references and the finalizers of o, unless it has
// changed, and updates o with the response.
//
//upstream:pkg/controller.ownerRefControllerPatch
//upstream:pkg/controller.GenerateDeleteOwnerRefStrategicMergeBytes
func patchOwnerReferences(ctx context.Context, c client.Client, o client.Object, owners []metav1.OwnerReference,
	finalizers []string) error {
	metadata := map[string]any{
		"uid":             o.GetUID(),
		"resourceVersion": o.GetResourceVersion(),
		"ownerReferences": owners,
	}
	if !slices.Equal(finalizers, o.GetFinalizers()) {
		metadata["finalizers"] = finalizers
	}
	body, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		return err
	}
	return client.IgnoreNotFound(c.Patch(ctx, o, client.RawPatch(types.MergePatchType, body)))
}

// without returns the references to other owners.
func without(refs []metav1.OwnerReference, uid types.UID) []metav1.OwnerReference {
	kept := make([]metav1.OwnerReference, 0, len(refs)+1)
	for _, r := range refs {
		if r.UID != uid {
			kept = append(kept, r)
		}
	}
	return kept
}
