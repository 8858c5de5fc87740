package filtered

import (
	"context"

	"api"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

type Reconciler struct{ client.Client }

func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	app := &api.App{}
	if err := r.Update(ctx, app); err != nil {
		if apierrors.IsConflict(err) {
			return ctrl.Result{}, nil // want `a conflict counts as success`
		}
		return ctrl.Result{}, err
	}
	if err := r.Update(ctx, app); apierrors.IsConflict(err) {
		return ctrl.Result{RequeueAfter: 1}, nil
	}
	if err := r.Update(ctx, app); apierrors.IsConflict(err) {
		return ctrl.Result{}, err
	}
	err := r.Status().Update(ctx, app)
	if err != nil && apierrors.IsConflict(err) {
		return ctrl.Result{}, nil // want `a conflict counts as success`
	}
	return ctrl.Result{}, r.ignores(ctx, app)
}

func (r *Reconciler) ignores(ctx context.Context, app *api.App) error {
	err := r.Update(ctx, app)
	if apierrors.IsConflict(err) {
		return nil // want `a conflict counts as success`
	}
	return err
}

func (r *Reconciler) claims(ctx context.Context, app *api.App) (bool, error) {
	if err := r.Update(ctx, app); apierrors.IsConflict(err) {
		return false, nil
	}
	return true, nil
}

func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).For(&api.App{}).WithEventFilter(predicate.GenerationChangedPredicate{}).Complete(r)
}
