package listscope

import (
	"context"

	"api"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

type Reconciler struct {
	client.Client
	Scheme *runtime.Scheme
}

func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	pods := &corev1.PodList{}
	if err := r.List(ctx, pods); err != nil { // want `every event lists every Pod of the cluster`
		return ctrl.Result{}, err
	}
	if err := r.List(ctx, pods, client.Limit(10), client.MatchingLabels{}); err != nil { // want `every event lists every Pod`
		return ctrl.Result{}, err
	}
	if err := r.List(ctx, pods, client.InNamespace(req.Namespace)); err != nil {
		return ctrl.Result{}, err
	}
	if err := r.List(ctx, pods, client.MatchingLabels{"app": req.Name}); err != nil {
		return ctrl.Result{}, err
	}
	var options []client.ListOption
	if err := r.List(ctx, pods, options...); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{}, r.List(ctx, &corev1.NodeList{})
}

func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	if err := r.List(context.Background(), &corev1.SecretList{}); err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(mgr).For(&api.App{}).
		Watches(&corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(r.appsOf)).Complete(r)
}

func (r *Reconciler) appsOf(ctx context.Context, secret client.Object) []reconcile.Request {
	if err := r.List(ctx, &corev1.SecretList{}); err != nil { // want `every event lists every Secret of the cluster`
		return nil
	}
	return nil
}
