package droppederror

import (
	"context"
	"log/slog"

	"api"
	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

type Hiding struct{ client.Client }

func (r *Hiding) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	app, pod := &api.App{}, &corev1.Pod{}
	if err := r.Create(ctx, pod); err != nil {
		slog.ErrorContext(ctx, "no pod", "error", err)
		return ctrl.Result{}, nil // want `the error of Create ends the reconcile as a success`
	}
	if _, err := controllerutil.CreateOrUpdate(ctx, r, pod, func() error { return nil }); err != nil {
		return ctrl.Result{}, nil // want `the error of CreateOrUpdate ends the reconcile as a success`
	}
	return r.done(ctx, app)
}

func (r *Hiding) done(ctx context.Context, app *api.App) (ctrl.Result, error) {
	app.Status.Phase = "Done"
	err := r.Status().Update(ctx, app)
	if client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, nil // want `the error of Update of the status ends the reconcile as a success`
	}
	return ctrl.Result{}, nil
}
