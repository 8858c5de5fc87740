package conflict

import (
	"context"

	"api"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/util/retry"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

type Reconciler struct {
	client.Client
	Scheme *runtime.Scheme
}

func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	app := &api.App{}
	if err := r.Update(ctx, app); err != nil {
		if apierrors.IsConflict(err) {
			return ctrl.Result{}, nil
		}
		return ctrl.Result{}, err
	}
	if err := r.Update(ctx, app); apierrors.IsConflict(err) {
		return ctrl.Result{RequeueAfter: 1}, nil
	}
	if err := r.Update(ctx, app); apierrors.IsConflict(err) {
		return ctrl.Result{}, err
	}
	return ctrl.Result{}, r.retried(ctx, app)
}

func (r *Reconciler) ignores(ctx context.Context, app *api.App) error {
	err := r.Update(ctx, app)
	if apierrors.IsConflict(err) {
		return nil
	}
	return err
}

func (r *Reconciler) claims(ctx context.Context, app *api.App) (bool, error) {
	if err := r.Update(ctx, app); apierrors.IsConflict(err) {
		return false, nil
	}
	return true, nil
}

func (r *Reconciler) retried(ctx context.Context, app *api.App) error {
	if err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		app.Spec.Image = "x"
		return r.Update(ctx, app) // want `the retry writes the same stale app again`
	}); err != nil {
		return err
	}
	if err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		if err := r.Update(ctx, app); err != nil { // want `the retry writes the same stale app again`
			return err
		}
		return r.Get(ctx, client.ObjectKeyFromObject(app), app)
	}); err != nil {
		return err
	}
	if err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		err := r.Update(ctx, app)
		if err != nil {
			if err := r.Get(ctx, client.ObjectKeyFromObject(app), app); err != nil {
				return err
			}
			return err
		}
		return nil
	}); err != nil {
		return err
	}
	if err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		if err := r.Get(ctx, client.ObjectKeyFromObject(app), app); err != nil {
			return err
		}
		return r.Status().Update(ctx, app)
	}); err != nil {
		return err
	}
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		fresh := &api.App{}
		if err := r.Get(ctx, client.ObjectKeyFromObject(app), fresh); err != nil {
			return err
		}
		return r.Update(ctx, fresh)
	})
}

func (r *Reconciler) versioned(ctx context.Context, app, found *api.App) error {
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		if err := r.Get(ctx, client.ObjectKeyFromObject(app), found); err != nil {
			return err
		}
		app.ResourceVersion = found.ResourceVersion
		return r.Update(ctx, app)
	})
}
