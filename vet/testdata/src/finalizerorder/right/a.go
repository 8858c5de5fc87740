package right

import (
	"context"

	"api"
	corev1 "k8s.io/api/core/v1"
	"platform"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

const finalizer = "example.com/app"

type Reconciler struct {
	client.Client
	Children platform.Children
	Cloud    platform.Cloud
}

func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	app := &api.App{}
	if err := r.Get(ctx, req.NamespacedName, app); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if err := r.local(ctx, app); err != nil {
		return ctrl.Result{}, err
	}
	if err := r.helped(ctx, app); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{}, r.sync(ctx, app)
}

// The helper creates objects of the cluster.
func (r *Reconciler) local(ctx context.Context, app *api.App) error {
	helper := platform.NewKube()
	if err := helper.CreateSecret(ctx, app.Name); err != nil {
		return err
	}
	if controllerutil.AddFinalizer(app, finalizer) {
		return r.Update(ctx, app)
	}
	return nil
}

func (r *Reconciler) helped(ctx context.Context, app *api.App) error {
	if err := r.ensureFinalizer(ctx, app); err != nil {
		return err
	}
	if err := r.Cloud.EnsureNetwork(ctx, app.Name); err != nil {
		return err
	}
	return r.ensureFinalizer(ctx, app)
}

func (r *Reconciler) ensureFinalizer(ctx context.Context, app *api.App) error {
	if controllerutil.AddFinalizer(app, finalizer) {
		return r.Update(ctx, app)
	}
	return nil
}

// What is created is of the cluster, and its owner is the app.
func (r *Reconciler) sync(ctx context.Context, app *api.App) error {
	if err := r.Children.EnsureWatch(ctx, "pods"); err != nil {
		return err
	}
	if err := r.Children.EnsureWorkload(ctx, app); err != nil {
		return err
	}
	if controllerutil.AddFinalizer(app, finalizer) {
		return r.Update(ctx, app)
	}
	return r.protect(ctx, app)
}

// The finalizer protects another object, and is not what cleans up the network.
func (r *Reconciler) protect(ctx context.Context, app *api.App) error {
	if err := r.Cloud.EnsureNetwork(ctx, app.Name); err != nil {
		return err
	}
	secret := &corev1.Secret{}
	if err := r.Get(ctx, client.ObjectKey{Namespace: app.Namespace, Name: app.Name}, secret); err != nil {
		return err
	}
	controllerutil.AddFinalizer(secret, finalizer)
	return r.Update(ctx, secret)
}

func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).For(&api.App{}).Complete(r)
}
