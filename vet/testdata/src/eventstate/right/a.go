package right

import (
	"context"

	"api"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

type Reconciler struct{ client.Client }

// The predicates change copies of their own and read what there is.
func (r *Reconciler) predicates(ctx context.Context) predicate.Funcs {
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return r.isWanted(ctx, e.Object) },
		UpdateFunc: func(e event.UpdateEvent) bool {
			before := e.ObjectOld.(*api.App).DeepCopy()
			before.Status = e.ObjectNew.(*api.App).Status
			return before.Spec != e.ObjectNew.(*api.App).Spec
		},
	}
}

func (r *Reconciler) isWanted(ctx context.Context, o client.Object) bool {
	return r.Get(ctx, client.ObjectKeyFromObject(o), &api.App{}) == nil
}
