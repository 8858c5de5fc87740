// Package steps has a reconcile of several steps, each of which may ask for another one.
package steps

import (
	"context"
	"time"

	"api"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

type Reconciler struct {
	client.Client
	Scheme *runtime.Scheme
}

type step func(context.Context, *api.App) (ctrl.Result, error)

func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	app := &api.App{}
	if err := r.Get(ctx, req.NamespacedName, app); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	var result ctrl.Result
	for _, step := range []step{r.service, r.secret} {
		part, err := step(ctx, app)
		if err != nil {
			return part, err
		}
		if result.RequeueAfter == 0 || part.RequeueAfter > 0 && part.RequeueAfter < result.RequeueAfter {
			result.RequeueAfter = part.RequeueAfter
		}
	}
	return result, nil
}

func (r *Reconciler) service(ctx context.Context, app *api.App) (ctrl.Result, error) {
	service := &corev1.Service{}
	service.Namespace, service.Name = app.Namespace, app.Name
	if err := ctrl.SetControllerReference(app, service, r.Scheme); err != nil {
		return ctrl.Result{}, err
	}
	if err := r.Create(ctx, service); err != nil && !apierrors.IsAlreadyExists(err) {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: time.Hour}, nil
}

func (r *Reconciler) secret(ctx context.Context, app *api.App) (ctrl.Result, error) {
	secret := &corev1.Secret{}
	if err := r.Get(ctx, client.ObjectKeyFromObject(app), secret); err != nil {
		if apierrors.IsNotFound(err) {
			return ctrl.Result{RequeueAfter: time.Minute}, nil // an administrator makes it
		}
		return ctrl.Result{}, err
	}
	return ctrl.Result{}, nil
}
