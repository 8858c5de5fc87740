// Package cleaner deletes objects when their time is over.
//
//upstream:none Each controller of kube-controller-manager has a loop of its own.
package cleaner

import (
	"context"
	"time"

	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/reconcile"
)

// New returns a reconciler that deletes objects of type T at their deadlines. The function deadline returns the deadline of
// an object, and false if the object has none. If the object has changed since the cache has seen it, the deletion fails with
// a conflict, and the retry asks for the deadline again. T must be a pointer to a struct.
func New[T client.Object](c client.Client, deadline func(T) (at time.Time, ok bool), options ...client.DeleteOption) reconcile.Reconciler {
	return reconcile.AsReconciler(c, &cleaner[T]{c, deadline, (&client.DeleteOptions{}).ApplyOptions(options)})
}

// cleaner deletes objects of type T.
type cleaner[T client.Object] struct {
	client   client.Client
	deadline func(T) (at time.Time, ok bool)
	options  client.DeleteOption
}

// Reconcile deletes an object if its deadline has passed, and otherwise comes back at the deadline.
func (c *cleaner[T]) Reconcile(ctx context.Context, object T) (reconcile.Result, error) {
	at, ok := c.deadline(object)
	if !ok {
		return reconcile.Result{}, nil
	}
	if left := time.Until(at); left > 0 {
		return reconcile.Result{RequeueAfter: left}, nil
	}
	uid, version := object.GetUID(), object.GetResourceVersion()
	err := c.client.Delete(ctx, object, c.options, client.Preconditions{UID: &uid, ResourceVersion: &version})
	return reconcile.Result{}, client.IgnoreNotFound(err)
}
