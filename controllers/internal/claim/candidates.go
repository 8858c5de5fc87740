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

// byController is the name of the index of objects by the UID of their controller.
const byController = "controller.uid"

// Index adds the index that [Claim] and [ControlledBy] need for objects of obj's kind.
//
//upstream:pkg/controller.AddPodControllerIndexer
func Index(ctx context.Context, indexer client.FieldIndexer, obj client.Object) error {
	return indexer.IndexField(ctx, obj, byController, func(o client.Object) []string {
		if ref := metav1.GetControllerOfNoCopy(o); ref != nil {
			return []string{string(ref.UID)}
		}
		return nil
	})
}

// ControlledBy is the option to list the objects in a namespace that an owner controls. Their kind must have an [Index].
func ControlledBy(namespace string, owner types.UID) client.ListOption {
	return &client.ListOptions{Namespace: namespace, FieldSelector: fields.OneTermEqualSelector(byController, string(owner))}
}

// Candidates returns the objects in owner's namespace that owner controls or that match the
// selector. They are of the kind of the list.
//
//upstream:pkg/controller.FilterPodsByOwner
func Candidates[T client.Object](ctx context.Context, c client.Reader, list client.ObjectList,
	owner client.Object, selector labels.Selector) ([]T, error) {
	var found []T
	has := map[types.UID]bool{}
	for _, option := range []client.ListOption{
		ControlledBy(owner.GetNamespace(), owner.GetUID()),
		client.MatchingLabelsSelector{Selector: selector},
	} {
		if err := c.List(ctx, list, client.InNamespace(owner.GetNamespace()), option); err != nil {
			return nil, err
		}
		err := meta.EachListItem(list, func(item runtime.Object) error {
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
