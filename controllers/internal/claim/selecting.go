package claim

import (
	"context"
	"maps"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/event"
	"flyball.dev/ctrl/handler"
	"flyball.dev/ctrl/predicate"
	"flyball.dev/ctrl/reconcile"
)

// Requests returns a function that maps an object to its controller, if that is of the kind, and an object without a controller to
// its adopters. One watch with it takes the place of a watch of the owned objects beside one of the orphans.
func Requests(kind schema.GroupKind, adopters handler.MapFunc) handler.MapFunc {
	return func(ctx context.Context, o client.Object) []reconcile.Request {
		ref := metav1.GetControllerOfNoCopy(o)
		if ref == nil {
			return adopters(ctx, o)
		}
		if group, _, ok := strings.Cut(ref.APIVersion, "/"); ref.Kind != kind.Kind || ok != (kind.Group != "") || ok && group != kind.Group {
			return nil
		}
		return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: o.GetNamespace(), Name: ref.Name}}}
	}
}

// Claimable drops the updates of objects without a controller that keep their labels: nobody adopts them who has not before.
//
//upstream:pkg/controller/replicaset.ReplicaSetController.updatePod
var Claimable = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	was, is := e.ObjectOld, e.ObjectNew
	return metav1.GetControllerOfNoCopy(was) != nil || metav1.GetControllerOfNoCopy(is) != nil || !maps.Equal(was.GetLabels(), is.GetLabels())
}}

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
