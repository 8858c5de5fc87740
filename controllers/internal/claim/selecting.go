package claim

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/reconcile"
)

// Adopters returns the owners that would adopt o: the result of [Selecting] if o has no controller and is not being
// deleted, or else nil.
func Adopters[T client.Object](ctx context.Context, c client.Reader, list client.ObjectList, o client.Object,
	selector func(T) *metav1.LabelSelector) []reconcile.Request {
	if metav1.GetControllerOfNoCopy(o) != nil || o.GetDeletionTimestamp() != nil {
		return nil
	}
	return Selecting(ctx, c, list, o, selector)
}

// Selecting returns the owners in o's namespace with a selector that matches o's labels. They have the kind of the list.
// A selector that is nil, empty or invalid matches nothing.
func Selecting[T client.Object](ctx context.Context, c client.Reader, list client.ObjectList, o client.Object,
	selector func(T) *metav1.LabelSelector) []reconcile.Request {
	if len(o.GetLabels()) == 0 {
		return nil
	}
	if err := c.List(ctx, list, client.InNamespace(o.GetNamespace())); err != nil {
		return nil // the cache has stopped
	}
	var requests []reconcile.Request
	_ = meta.EachListItem(list, func(item runtime.Object) error {
		owner := item.(T)
		s, err := metav1.LabelSelectorAsSelector(selector(owner))
		if err == nil && !s.Empty() && s.Matches(labels.Set(o.GetLabels())) {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(owner)})
		}
		return nil
	})
	return requests
}
