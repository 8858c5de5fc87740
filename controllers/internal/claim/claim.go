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

// Going says that the owner is not what the cache says: it is gone, or going. Its objects are nobody's
// business then; to make others in their place would be wrong.
type Going struct{ Owner client.ObjectKey }

func (e Going) Error() string { return e.Owner.String() + " is gone or going" }

// Claim carries out what [Sort] says of the objects in owner's namespace that owner controls or that
// match the selector, and returns what owner then owns. The list, of a kind given to [Index], says
// what kind they are. Before it adopts, it makes sure through live that owner still exists and is not
// going.
//
// Possible errors: [Going]; a conflict, if an object has changed since it was read. Whoever gets an
// error does not know what owner owns, and must not act as if it owned nothing.
func Claim[T client.Object](ctx context.Context, c client.Client, live client.Reader, owner client.Object, kind schema.GroupVersionKind, selector labels.Selector, list client.ObjectList) ([]T, error) {
	objects, err := candidates[T](ctx, c, list, owner, selector)
	if err != nil {
		return nil, err
	}
	s := Sort(owner, selector, objects)
	owned := s.Owned
	var errs []error
	for _, o := range s.Release {
		errs = append(errs, patchOwners(ctx, c, o, without(o.GetOwnerReferences(), owner.GetUID())))
	}
	if len(s.Adopt) > 0 {
		if err := exists(ctx, live, owner, kind); err != nil {
			return nil, err
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

func exists(ctx context.Context, live client.Reader, owner client.Object, kind schema.GroupVersionKind) error {
	now := &metav1.PartialObjectMetadata{}
	now.SetGroupVersionKind(kind)
	err := live.Get(ctx, client.ObjectKeyFromObject(owner), now)
	if apierrors.IsNotFound(err) || err == nil && (now.UID != owner.GetUID() || now.DeletionTimestamp != nil) {
		return Going{client.ObjectKeyFromObject(owner)}
	}
	return err
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
	return client.IgnoreNotFound(c.Patch(ctx, o, client.RawPatch(types.MergePatchType, body)))
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
