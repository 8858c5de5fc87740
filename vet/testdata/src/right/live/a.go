// Package live updates what it has read from the API server, and not from the cache.
package live

import (
	"context"

	"api"
	"k8s.io/client-go/util/retry"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

type Reconciler struct {
	client.Client
	APIReader client.Reader
}

const finalizer = "example.com/live"

func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	app := &api.App{}
	if err := r.Get(ctx, req.NamespacedName, app); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if app.DeletionTimestamp != nil {
		err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
			live := &api.App{}
			if err := r.APIReader.Get(ctx, req.NamespacedName, live); err != nil {
				return client.IgnoreNotFound(err)
			}
			if !controllerutil.RemoveFinalizer(live, finalizer) {
				return nil
			}
			return r.Update(ctx, live)
		})
		return ctrl.Result{}, err
	}
	if !controllerutil.AddFinalizer(app, finalizer) {
		return ctrl.Result{}, nil
	}
	return ctrl.Result{}, r.Update(ctx, app)
}
