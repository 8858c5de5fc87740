package createexists

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"platform"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

type Reconciler struct {
	client.Client
	Scheme *runtime.Scheme
}

func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	pod, found := &corev1.Pod{}, &corev1.Pod{}
	if err := r.Get(ctx, req.NamespacedName, found); err != nil {
		if err := r.Create(ctx, pod); err != nil { // want `every error of Get leads to this Create`
			return ctrl.Result{}, err
		}
	}
	err := r.Get(ctx, req.NamespacedName, found)
	if err != nil && apierrors.IsNotFound(err) {
		return ctrl.Result{}, r.Create(ctx, pod)
	}
	err = r.Get(ctx, req.NamespacedName, found)
	if err != nil {
		if !apierrors.IsNotFound(err) {
			return ctrl.Result{}, err
		}
		return ctrl.Result{}, r.Create(ctx, pod)
	}
	return ctrl.Result{}, r.always(ctx)
}

func (r *Reconciler) always(ctx context.Context) error {
	if err := client.IgnoreAlreadyExists(r.Create(ctx, &corev1.Service{})); err != nil {
		return err
	}
	return nil
}

type Other struct{ client.Client }

func (r *Other) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: req.Name}}
	return ctrl.Result{}, r.Create(ctx, secret) // want `Secret is created in every reconcile`
}

type Wrapped struct{ client.Client }

func (r *Wrapped) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	err := r.Get(ctx, req.NamespacedName, &corev1.Pod{})
	if err != nil {
		err = r.Create(ctx, &corev1.Pod{}) // want `every error of Get leads to this Create`
		if err != nil {
			return ctrl.Result{}, platform.Wrap(err)
		}
	}
	err = r.Get(ctx, req.NamespacedName, &corev1.Pod{})
	if err != nil && client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, err
	}
	if err != nil {
		return ctrl.Result{}, r.Create(ctx, &corev1.Pod{})
	}
	return ctrl.Result{}, nil
}
