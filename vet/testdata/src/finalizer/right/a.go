package right

import (
	"context"

	"api"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

type Reconciler struct {
	client.Client
	Scheme *runtime.Scheme
}

func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	app := &api.App{}
	if err := r.Get(ctx, req.NamespacedName, app); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	return ctrl.Result{}, r.sync(ctx, app)
}

func (r *Reconciler) sync(ctx context.Context, app *api.App) error {
	if !app.DeletionTimestamp.IsZero() {
		controllerutil.RemoveFinalizer(app, "example.com/app")
	} else {
		controllerutil.AddFinalizer(app, "example.com/app")
	}
	return r.Update(ctx, app)
}

// Split looks in a function of its own.
type Split struct{ client.Client }

func (r *Split) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	app := &api.App{}
	if err := r.Get(ctx, req.NamespacedName, app); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if done, err := r.finalize(ctx, app); done || err != nil {
		return ctrl.Result{}, err
	}
	if controllerutil.AddFinalizer(app, "example.com/app") {
		return ctrl.Result{}, r.Update(ctx, app)
	}
	return ctrl.Result{}, r.removeLeftovers(ctx, app)
}

func (r *Split) finalize(ctx context.Context, app *api.App) (bool, error) {
	if app.DeletionTimestamp.IsZero() {
		return false, nil
	}
	controllerutil.RemoveFinalizer(app, "example.com/app")
	return true, r.Update(ctx, app)
}

func (r *Split) removeLeftovers(ctx context.Context, app *api.App) error { return nil }

// Guarded looks in the condition.
type Guarded struct{ client.Client }

func (r *Guarded) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	app := &api.App{}
	if err := r.Get(ctx, req.NamespacedName, app); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if app.DeletionTimestamp.IsZero() && controllerutil.AddFinalizer(app, "example.com/app") {
		return ctrl.Result{}, r.Update(ctx, app)
	}
	if !app.DeletionTimestamp.IsZero() && controllerutil.RemoveFinalizer(app, "example.com/app") {
		return ctrl.Result{}, r.Update(ctx, app)
	}
	return ctrl.Result{}, nil
}
