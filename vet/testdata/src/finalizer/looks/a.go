package looks

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
	controllerutil.AddFinalizer(app, "example.com/app") // want `nothing in this package looks at DeletionTimestamp`
	if app.Spec.Image == "" {
		controllerutil.RemoveFinalizer(app, "example.com/app")
	}
	return r.Update(ctx, app)
}
