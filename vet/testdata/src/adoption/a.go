package adoption

import (
	"context"

	"api"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
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
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	return ctrl.Result{}, r.sync(ctx, app)
}

func (r *Reconciler) sync(ctx context.Context, app *api.App) error {
	pods := &corev1.PodList{}
	if err := r.List(ctx, pods, client.InNamespace(app.Namespace)); err != nil { // want `every object of this list, which no selector narrows, is adopted in line`
		return err
	}
	for i := range pods.Items {
		if err := ctrl.SetControllerReference(app, &pods.Items[i], r.Scheme); err != nil {
			return err
		}
		if err := r.Update(ctx, &pods.Items[i]); err != nil {
			return err
		}
	}
	secrets := &corev1.SecretList{}
	if err := r.List(ctx, secrets, client.MatchingLabels{}); err != nil { // want `is deleted in line`
		return err
	}
	for _, secret := range secrets.Items {
		if err := r.Delete(ctx, &secret); err != nil {
			return err
		}
	}
	if err := r.DeleteAllOf(ctx, &corev1.Service{}, client.InNamespace(app.Namespace), client.GracePeriodSeconds(1)); err != nil { // want `every Service there is deleted, for no selector narrows it`
		return err
	}
	return r.own(ctx, app)
}

func (r *Reconciler) own(ctx context.Context, app *api.App) error {
	pods := &corev1.PodList{}
	if err := r.List(ctx, pods, client.InNamespace(app.Spec.Namespace)); err != nil {
		return err
	}
	for _, pod := range pods.Items {
		if err := r.Delete(ctx, &pod); err != nil {
			return err
		}
	}
	return r.narrow(ctx, app)
}

func (r *Reconciler) narrow(ctx context.Context, app *api.App) error {
	pods := &corev1.PodList{}
	if err := r.List(ctx, pods, client.InNamespace(app.Namespace), client.MatchingLabels{"app": app.Name}); err != nil {
		return err
	}
	for i := range pods.Items {
		if err := ctrl.SetControllerReference(app, &pods.Items[i], r.Scheme); err != nil {
			return err
		}
	}
	if err := r.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace(app.Namespace), client.MatchingLabels{"app": app.Name}); err != nil {
		return err
	}
	if err := r.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace(app.Spec.Namespace)); err != nil {
		return err
	}
	if err := r.DeleteAllOf(ctx, &api.App{}, client.InNamespace(app.Namespace)); err != nil {
		return err
	}
	services := &corev1.ServiceList{}
	if err := r.List(ctx, services); err != nil {
		return err
	}
	for i := range services.Items {
		if services.Items[i].Labels["app"] != app.Name {
			continue
		}
		if err := r.Delete(ctx, &services.Items[i]); err != nil {
			return err
		}
	}
	return nil
}
