// Package claim decides which objects belong to a controller: those that it owns and that match its
// selector, and those that match and that nobody owns.
package claim

import (
	"context"
	"encoding/json"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"flyball.dev/ctrl/client"
)

// Sorted is the outcome of [Sort].
type Sorted[T client.Object] struct {
	Owned   []T // owned and matching
	Adopt   []T // matching, owned by nobody
	Release []T // owned, but no longer matching
}

// Sort says of each object what owner is to do with it. Objects that are going are neither adopted nor
// released, and an owner that is going adopts nothing. It changes nothing.
func Sort[T client.Object](owner metav1.Object, selector labels.Selector, objects []T) Sorted[T] {
	var s Sorted[T]
	for _, o := range objects {
		matches := selector.Matches(labels.Set(o.GetLabels()))
		switch ref := metav1.GetControllerOfNoCopy(o); {
		case ref != nil && ref.UID != owner.GetUID():
		case ref != nil && matches:
			s.Owned = append(s.Owned, o)
		case o.GetDeletionTimestamp() != nil || owner.GetDeletionTimestamp() != nil:
		case ref != nil:
			s.Release = append(s.Release, o)
		case matches:
			s.Adopt = append(s.Adopt, o)
		}
	}
	return s
}

// Claim carries out what [Sort] says and returns what owner then owns. Before it adopts, it makes sure
// through live that owner still exists and is not going. An object that has changed in the meantime is
// left as it is; the event of that change brings the controller back.
func Claim[T client.Object](ctx context.Context, c client.Client, live client.Reader, owner client.Object, kind schema.GroupVersionKind, selector labels.Selector, objects []T) ([]T, error) {
	s := Sort(owner, selector, objects)
	owned := s.Owned
	var errs []error
	for _, o := range s.Release {
		errs = append(errs, patchOwners(ctx, c, o, without(o.GetOwnerReferences(), owner.GetUID())))
	}
	if len(s.Adopt) > 0 {
		ok, err := exists(ctx, live, owner, kind)
		if !ok {
			return owned, errors.Join(append(errs, err)...)
		}
		ref := *metav1.NewControllerRef(owner, kind)
		for _, o := range s.Adopt {
			err := patchOwners(ctx, c, o, append(without(o.GetOwnerReferences(), owner.GetUID()), ref))
			if err == nil && metav1.IsControlledBy(o, owner) {
				owned = append(owned, o)
			}
			errs = append(errs, err)
		}
	}
	return owned, errors.Join(errs...)
}

func exists(ctx context.Context, live client.Reader, owner client.Object, kind schema.GroupVersionKind) (bool, error) {
	now := &metav1.PartialObjectMetadata{}
	now.SetGroupVersionKind(kind)
	if err := live.Get(ctx, client.ObjectKeyFromObject(owner), now); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	return now.UID == owner.GetUID() && now.DeletionTimestamp == nil, nil
}

// patchOwners replaces the owner references of the object as it is known; o becomes what the server
// answers.
func patchOwners(ctx context.Context, c client.Client, o client.Object, owners []metav1.OwnerReference) error {
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid":             o.GetUID(),
		"resourceVersion": o.GetResourceVersion(),
		"ownerReferences": owners,
	}})
	if err != nil {
		return err
	}
	err = c.Patch(ctx, o, client.RawPatch(types.MergePatchType, body))
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}

func without(refs []metav1.OwnerReference, uid types.UID) []metav1.OwnerReference {
	kept := make([]metav1.OwnerReference, 0, len(refs)+1)
	for _, r := range refs {
		if r.UID != uid {
			kept = append(kept, r)
		}
	}
	return kept
}
