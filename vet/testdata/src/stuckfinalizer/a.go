package stuckfinalizer

import (
	"context"
	"fmt"

	"api"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

type Reconciler struct {
	client.Client
	Scheme *runtime.Scheme
}

func cleanup(app *api.App) error { return nil }

func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	app := &api.App{}
	if err := r.Get(ctx, req.NamespacedName, app); err != nil {
		return ctrl.Result{}, nil
	}
	if !app.DeletionTimestamp.IsZero() {
		if err := cleanup(app); err != nil {
			fmt.Println("no")
			return ctrl.Result{}, nil // want `the cleanup failed and the reconcile ends without an error`
		}
		if err := cleanup(app); err != nil {
			return ctrl.Result{}, err
		}
		if err := cleanup(app); err != nil {
			return ctrl.Result{RequeueAfter: 1}, nil
		}
		if err := cleanup(app); apierrors.IsNotFound(err) {
			return ctrl.Result{}, nil
		}
		controllerutil.RemoveFinalizer(app, "example.com/app")
		return ctrl.Result{}, r.Update(ctx, app)
	}
	return ctrl.Result{}, r.finalize(ctx, app)
}

func (r *Reconciler) finalize(ctx context.Context, app *api.App) error {
	if err := cleanup(app); err != nil {
		return nil // want `the cleanup failed`
	}
	controllerutil.RemoveFinalizer(app, "example.com/app")
	return r.Update(ctx, app)
}
