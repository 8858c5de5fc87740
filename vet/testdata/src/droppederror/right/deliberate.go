package right

import (
	"context"

	"api"
	ctrl "sigs.k8s.io/controller-runtime"
)

// mark is right: the comments say that the errors are meant to be dropped.
func (r *Reconciler) mark(ctx context.Context, app *api.App) (ctrl.Result, error) {
	// The mark is for people to see. It is best effort,
	// and the next reconcile does not depend on it.
	_ = r.Update(ctx, app)
	_ = r.Status().Update(ctx, app) // ignored: the phase is only shown
	return ctrl.Result{}, nil
}
