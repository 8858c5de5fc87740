package finalizerorder

import (
	"context"

	"api"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

const finalizer = "example.com/bucket"

type buckets interface {
	CreateBucket(ctx context.Context, name string) error
	DeleteBucket(ctx context.Context, name string) error
	GrantAccess(ctx context.Context, name string) error
}

type Reconciler struct {
	client.Client
	Cloud buckets
}

func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	app := &api.App{}
	if err := r.deletedFirst(ctx, app); err != nil {
		return ctrl.Result{}, err
	}
	if err := r.deletedElse(ctx, app); err != nil {
		return ctrl.Result{}, err
	}
	if err := r.late(ctx, app); err != nil {
		return ctrl.Result{}, err
	}
	if err := r.nested(ctx, app); err != nil {
		return ctrl.Result{}, err
	}
	if err := r.helped(ctx, app); err != nil {
		return ctrl.Result{}, err
	}
	if err := r.connected(ctx, app); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{}, r.early(ctx, app)
}

func (r *Reconciler) connected(ctx context.Context, app *api.App) error {
	cloud, err := connect(app.Name)
	if err != nil {
		return err
	}
	if err := cloud.CreateBucket(ctx, app.Name); err != nil {
		return err
	}
	if controllerutil.AddFinalizer(app, finalizer) { // want `the finalizer is added after cloud.CreateBucket of line`
		return r.Update(ctx, app)
	}
	return nil
}

func connect(name string) (buckets, error) { return nil, nil }

func (r *Reconciler) helped(ctx context.Context, app *api.App) error {
	if err := r.Cloud.CreateBucket(ctx, app.Name); err != nil {
		return err
	}
	return r.ensureFinalizer(ctx, app) // want `the finalizer is added after r.Cloud.CreateBucket of line`
}

func (r *Reconciler) ensureFinalizer(ctx context.Context, app *api.App) error {
	if controllerutil.AddFinalizer(app, finalizer) {
		return r.Update(ctx, app)
	}
	return nil
}

func (r *Reconciler) late(ctx context.Context, app *api.App) error {
	if err := r.Cloud.GrantAccess(ctx, app.Name); err != nil {
		return err
	}
	controllerutil.AddFinalizer(app, finalizer) // want `the finalizer is added after r.Cloud.GrantAccess of line`
	return r.Update(ctx, app)
}

func (r *Reconciler) ensure(ctx context.Context, app *api.App) error {
	return r.Cloud.CreateBucket(ctx, app.Name)
}

func (r *Reconciler) nested(ctx context.Context, app *api.App) error {
	if err := r.ensure(ctx, app); err != nil {
		return err
	}
	if controllerutil.AddFinalizer(app, finalizer) { // want `the finalizer is added after r.ensure of line`
		return r.Update(ctx, app)
	}
	return nil
}

func (r *Reconciler) early(ctx context.Context, app *api.App) error {
	if controllerutil.AddFinalizer(app, finalizer) {
		if err := r.Update(ctx, app); err != nil {
			return err
		}
	}
	if err := r.ensure(ctx, app); err != nil {
		return err
	}
	controllerutil.AddFinalizer(app, finalizer+"2")
	return r.Update(ctx, app)
}

func (r *Reconciler) deletedFirst(ctx context.Context, app *api.App) error {
	if !app.DeletionTimestamp.IsZero() {
		if controllerutil.ContainsFinalizer(app, finalizer) {
			controllerutil.RemoveFinalizer(app, finalizer)
			return r.Update(ctx, app)
		}
		return nil
	}
	if err := r.Cloud.CreateBucket(ctx, app.Name); err != nil {
		return err
	}
	if controllerutil.AddFinalizer(app, finalizer) { // want `the finalizer is added after r.Cloud.CreateBucket of line`
		return r.Update(ctx, app)
	}
	return nil
}

func (r *Reconciler) deletedElse(ctx context.Context, app *api.App) error {
	if app.DeletionTimestamp != nil {
		return nil
	} else if !controllerutil.ContainsFinalizer(app, finalizer) {
		controllerutil.AddFinalizer(app, finalizer)
		return r.Update(ctx, app)
	}
	if err := r.Cloud.CreateBucket(ctx, app.Name); err != nil {
		return err
	}
	controllerutil.AddFinalizer(app, finalizer)
	return r.Update(ctx, app)
}
