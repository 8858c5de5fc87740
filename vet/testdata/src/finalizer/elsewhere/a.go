package elsewhere

import (
	"context"

	"api"
	"platform"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

// Reconciler leaves the cleanup, and the removal of the finalizer, to another package.
type Reconciler struct{ client.Client }

func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	app := &api.App{}
	if err := r.Get(ctx, req.NamespacedName, app); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if isMarkedForDeletion(app) {
		return ctrl.Result{}, platform.Teardown(ctx, app)
	}
	controllerutil.AddFinalizer(app, "example.com/app")
	return ctrl.Result{}, r.Update(ctx, app)
}

var isMarkedForDeletion = func(app *api.App) bool { return app.Status.Phase == "Terminating" }
