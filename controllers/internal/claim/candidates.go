package claim

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"flyball.dev/ctrl/client"
)

// byController is the name of the index of objects by the UID of their controller, or [uncontrolled].
const byController = "controller.uid"

// uncontrolled is the value of the index for objects without a controller. No UID is equal to it: the server generates UIDs, and a
// reference to an owner needs one that is not empty.
const uncontrolled = ""

// Index adds the index that [Claim] and [ControlledBy] need for objects of obj's kind.
//
//upstream:pkg/controller.AddPodControllerIndexer
func Index(ctx context.Context, indexer client.FieldIndexer, obj client.Object) error {
	return indexer.IndexField(ctx, obj, byController, func(o client.Object) []string {
		if ref := metav1.GetControllerOfNoCopy(o); ref != nil {
			return []string{string(ref.UID)}
		}
		return []string{uncontrolled}
	})
}

// ControlledBy is the option to list the objects in a namespace that an owner controls. Their kind must have an [Index].
func ControlledBy(namespace string, owner types.UID) client.ListOption {
	return &client.ListOptions{Namespace: namespace, FieldSelector: fields.OneTermEqualSelector(byController, string(owner))}
}

// Candidates returns the objects in owner's namespace that owner controls, and the objects without a controller that match the
// selector. They are of the kind of the list, which must have an [Index]. An object with another controller is nothing to adopt, so it is
// not read: a selector may match thousands of them.
//
//upstream:pkg/controller.FilterPodsByOwner
func Candidates[T client.Object](ctx context.Context, c client.Reader, list client.ObjectList,
	owner client.Object, selector labels.Selector) ([]T, error) {
	var found []T
	has := map[types.UID]bool{}
	for _, option := range []*client.ListOptions{
		{FieldSelector: fields.OneTermEqualSelector(byController, string(owner.GetUID()))},
		{FieldSelector: fields.OneTermEqualSelector(byController, uncontrolled), LabelSelector: selector},
	} {
		if err := c.List(ctx, list, client.InNamespace(owner.GetNamespace()), option); err != nil {
			return nil, err
		}
		err := meta.EachListItem(list, func(item runtime.Object) error {
			// An object may have lost its controller between the two lists.
			if o := item.(T); !has[o.GetUID()] {
				has[o.GetUID()] = true
				found = append(found, o)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return found, nil
}
