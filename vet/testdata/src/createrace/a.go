package createrace

import (
	"context"

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

func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	pod := &corev1.Pod{}
	if err := r.Get(ctx, req.NamespacedName, pod); apierrors.IsNotFound(err) {
		return ctrl.Result{}, r.Create(ctx, pod) // want `handle AlreadyExists`
	}
	return ctrl.Result{}, r.handled(ctx, req)
}

func (r *Reconciler) handled(ctx context.Context, req ctrl.Request) error {
	pod := &corev1.Pod{}
	if err := r.Get(ctx, req.NamespacedName, pod); apierrors.IsNotFound(err) {
		return client.IgnoreAlreadyExists(r.Create(ctx, pod))
	}
	return r.Create(ctx, &corev1.Service{})
}
