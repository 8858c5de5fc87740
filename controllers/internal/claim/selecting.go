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

// Adopters names the owners that would adopt o: those that select it, as [Selecting] finds them, if
// nobody controls it and it is not going.
func Adopters[T client.Object](ctx context.Context, c client.Reader, list client.ObjectList, o client.Object, selector func(T) *metav1.LabelSelector) []reconcile.Request {
	if metav1.GetControllerOfNoCopy(o) != nil || o.GetDeletionTimestamp() != nil {
		return nil
	}
	return Selecting(ctx, c, list, o, selector)
}

// Selecting names the owners in o's namespace whose selector matches o's labels. The list says what
// kind the owners are. One whose selector is nil, empty or invalid selects nothing.
func Selecting[T client.Object](ctx context.Context, c client.Reader, list client.ObjectList, o client.Object, selector func(T) *metav1.LabelSelector) []reconcile.Request {
	if len(o.GetLabels()) == 0 {
		return nil
	}
	if err := c.List(ctx, list, client.InNamespace(o.GetNamespace())); err != nil {
		return nil // the cache ends
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
