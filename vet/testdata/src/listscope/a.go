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
	for _, pod := range pods.Items {
		if pod.Name == req.Name {
			return ctrl.Result{}, nil
		}
	}
	all := &corev1.PodList{}
	if err := r.List(ctx, all); err != nil {
		return ctrl.Result{}, err
	}
	for _, pod := range all.Items {
		if pod.Status.Phase == "Pending" || pod.Name != "" {
			return ctrl.Result{}, nil
		}
	}
	secrets := &corev1.SecretList{}
	if err := r.List(ctx, secrets); err != nil { // want `every event lists every Secret of the cluster`
		return ctrl.Result{}, err
	}
	for _, secret := range secrets.Items {
		if secret.Name == "license" {
			return ctrl.Result{}, nil
		}
	}
	for i := range secrets.Items {
		secret := &secrets.Items[i]
		if secret.GetNamespace() == req.Namespace {
			return ctrl.Result{}, nil
		}
	}
	return ctrl.Result{}, r.more(ctx, req)
}

func (r *Reconciler) more(ctx context.Context, req ctrl.Request) error {
	secrets := &corev1.SecretList{}
	if err := r.List(ctx, secrets, client.Limit(10), client.MatchingLabels{}, &client.ListOptions{}); err != nil { // want `every event lists every Secret`
		return err
	}
	for _, secret := range secrets.Items {
		if secret.Labels["app"] != req.Name {
			continue
		}
	}
	pods := &corev1.PodList{}
	var options []client.ListOption
	for _, err := range []error{
		r.List(ctx, pods, client.InNamespace(req.Namespace)),
		r.List(ctx, pods, client.MatchingLabels{"app": req.Name}),
		r.List(ctx, pods, &client.ListOptions{Namespace: req.Namespace}),
		r.List(ctx, pods, options...),
		r.List(ctx, &corev1.NodeList{}),
	} {
		if err != nil {
			return err
		}
	}
	for _, pod := range pods.Items {
		if pod.Name == req.Name {
			return nil
		}
	}
	return nil
}

func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	if err := r.List(context.Background(), &corev1.SecretList{}); err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(mgr).For(&api.App{}).
		Watches(&corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(r.appsOf)).Complete(r)
}

func (r *Reconciler) appsOf(ctx context.Context, secret client.Object) []reconcile.Request {
	services := &corev1.ServiceList{}
	if err := r.List(ctx, services); err != nil { // want `every event lists every Service of the cluster`
		return nil
	}
	for _, service := range services.Items {
		if secret.GetName() == service.Spec.Image && secret.GetNamespace() == service.Namespace {
			return nil
		}
	}
	return nil
}
