package ignorenotfound

import (
	"context"
	"fmt"
	"time"

	"api"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

type Reconciler struct {
	client.Client
	Scheme *runtime.Scheme
}

func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	app := &api.App{}
	if err := r.Get(ctx, req.NamespacedName, app); err != nil {
		return ctrl.Result{}, err // want `NotFound is no error here`
	}
	err := r.Get(ctx, req.NamespacedName, app)
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("get: %w", err) // want `NotFound is no error here`
	}
	if err := r.Get(ctx, req.NamespacedName, app); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if err := r.Get(ctx, req.NamespacedName, app); err != nil {
		if apierrors.IsNotFound(err) {
			return ctrl.Result{}, nil
		}
		return ctrl.Result{}, err
	}
	if err := r.Get(ctx, types.NamespacedName{Namespace: req.Namespace, Name: req.Name}, app); err != nil {
		return ctrl.Result{}, err // want `NotFound is no error here`
	}
	if err := r.Get(ctx, req.NamespacedName, app); client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, err
	}
	if err := r.Get(ctx, types.NamespacedName{Name: app.Spec.Image}, &corev1.Secret{}); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{}, nil
}

func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).For(&api.App{}).Complete(r)
}

// Hider is a reconciler whose errors nobody sees.
type Hider struct{ client.Client }

func (r *Hider) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	app := &api.App{}
	if err := r.Get(ctx, req.NamespacedName, app); err != nil {
		return ctrl.Result{}, nil // want `ends as a success whatever the error was`
	}
	if err := r.Get(ctx, req.NamespacedName, app); err != nil {
		if apierrors.IsNotFound(err) {
			return ctrl.Result{}, nil
		}
		fmt.Println(err)
		return ctrl.Result{}, nil // want `ends as a success whatever the error was`
	}
	if err := r.Get(ctx, req.NamespacedName, app); err != nil {
		return ctrl.Result{RequeueAfter: time.Second}, nil
	}
	if err := r.Get(ctx, req.NamespacedName, app); err != nil {
		return ctrl.Result{Requeue: false}, nil // want `ends as a success whatever the error was`
	}
	if err := r.Get(ctx, req.NamespacedName, app); err != nil {
		return ctrl.Result{Requeue: true}, nil
	}
	result, later := ctrl.Result{}, ctrl.Result{RequeueAfter: time.Second}
	if err := r.Get(ctx, req.NamespacedName, app); err != nil {
		return result, nil // want `ends as a success whatever the error was`
	}
	if err := r.Get(ctx, req.NamespacedName, app); err != nil {
		return later, nil
	}
	soon := ctrl.Result{}
	soon.RequeueAfter = time.Second
	if err := r.Get(ctx, req.NamespacedName, app); err != nil {
		return soon, nil
	}
	err := r.Get(ctx, req.NamespacedName, app)
	if err != nil {
		if !apierrors.IsNotFound(err) {
			return ctrl.Result{}, fmt.Errorf("get: %w", err)
		}
		return ctrl.Result{}, nil
	}
	err = r.Get(ctx, req.NamespacedName, app)
	if apierrors.IsNotFound(err) {
		return ctrl.Result{}, nil
	}
	if err != nil {
		return ctrl.Result{}, nil // want `ends as a success whatever the error was`
	}
	if err := r.Get(ctx, req.NamespacedName, app); apierrors.IsNotFound(err) {
		return ctrl.Result{}, nil
	}
	return ctrl.Result{}, nil
}
