package droppederror

import (
	"context"
	"errors"
	"fmt"

	"api"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// wrapped returns errors that make the reconcile run again, whatever becomes of the status.
func (r *Reconciler) wrapped(ctx context.Context, app *api.App) (ctrl.Result, error) {
	if err := r.Delete(ctx, app); client.IgnoreNotFound(err) != nil {
		err = fmt.Errorf("deleting: %w", err)
		_ = r.Status().Update(ctx, app)
		return ctrl.Result{}, err
	}
	switch app.Status.Phase {
	case "Failed":
		err := errors.New("failed")
		_ = r.Status().Update(ctx, app)
		return ctrl.Result{}, err
	}
	if err := r.Delete(ctx, app); err != nil {
		err = client.IgnoreNotFound(err)
		_ = r.Status().Update(ctx, app) // want `the error of Update of the status is dropped`
		return ctrl.Result{}, err
	}
	return ctrl.Result{}, nil
}
