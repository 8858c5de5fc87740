package eventstate

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

type Reconciler struct {
	client.Client
	deleted map[string]bool
	last    string
}

type handled struct{ seen map[string]bool }

func (h *handled) Create(e event.CreateEvent) bool {
	h.seen[e.Object.GetName()] = true // want `keeps h.seen\[e.Object.GetName\(\)\]`
	return true
}

func (r *Reconciler) predicates(ctx context.Context) predicate.Funcs {
	changes := 0
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool {
			changes++                      // want `keeps changes`
			err := r.Delete(ctx, e.Object) // want `writes \(Delete\)`
			return err == nil
		},
		UpdateFunc: func(e event.UpdateEvent) bool {
			r.last = e.ObjectNew.GetName() // want `keeps r.last`
			same := true
			same = e.ObjectOld.GetName() == r.last
			return !same
		},
		DeleteFunc: func(e event.DeleteEvent) bool {
			delete(r.deleted, e.Object.GetName()) // want `keeps r.deleted`
			return r.release(ctx, e.Object)       // want `release writes \(Delete\)`
		},
	}
}

func (r *Reconciler) release(ctx context.Context, o client.Object) bool {
	return r.cleanup(ctx, o) == nil
}

func (r *Reconciler) cleanup(ctx context.Context, o client.Object) error { return r.Delete(ctx, o) }
