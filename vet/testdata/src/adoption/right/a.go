package right

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
	if err := r.cases(ctx, app); err != nil {
		return ctrl.Result{}, err
	}
	if err := r.filtered(ctx, app); err != nil {
		return ctrl.Result{}, err
	}
	if err := r.named(ctx, app); err != nil {
		return ctrl.Result{}, err
	}
	if _, err := r.shown(ctx, app); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{}, r.inPlace(ctx, app)
}

func (r *Reconciler) cases(ctx context.Context, app *api.App) error {
	pods := &corev1.PodList{}
	if err := r.List(ctx, pods, client.InNamespace(app.Namespace)); err != nil {
		return err
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		switch {
		case pod.Labels["app"] != app.Name:
		case pod.Status.Phase == "Failed":
			if err := r.Delete(ctx, pod); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *Reconciler) filtered(ctx context.Context, app *api.App) error {
	pods := &corev1.PodList{}
	if err := r.List(ctx, pods, client.InNamespace(app.Namespace)); err != nil {
		return err
	}
	pods.Items = owned(pods.Items, app)
	for i := range pods.Items {
		if err := r.Delete(ctx, &pods.Items[i]); err != nil {
			return err
		}
	}
	return nil
}

func (r *Reconciler) inPlace(ctx context.Context, app *api.App) error {
	pods := corev1.PodList{}
	if err := r.List(ctx, &pods, client.InNamespace(app.Namespace)); err != nil {
		return err
	}
	keepOwned(&pods, app)
	for i := range pods.Items {
		if err := r.Delete(ctx, &pods.Items[i]); err != nil {
			return err
		}
	}
	return nil
}

func owned(pods []corev1.Pod, app *api.App) []corev1.Pod { return pods[:0] }

func keepOwned(pods *corev1.PodList, app *api.App) { pods.Items = owned(pods.Items, app) }

func (r *Reconciler) named(ctx context.Context, app *api.App) error {
	pods := &corev1.PodList{}
	if err := r.List(ctx, pods, client.InNamespace(app.Namespace)); err != nil {
		return err
	}
	for _, pod := range pods.Items {
		if name, ok := pod.Labels["app"]; ok && name == app.Name {
			if err := r.Delete(ctx, &pod); err != nil {
				return err
			}
		}
	}
	return nil
}

// The owner is set in copies that are only shown: nothing writes them.
func (r *Reconciler) shown(ctx context.Context, app *api.App) ([]corev1.Pod, error) {
	pods := &corev1.PodList{}
	if err := r.List(ctx, pods, client.InNamespace(app.Namespace)); err != nil {
		return nil, err
	}
	for i := range pods.Items {
		if err := ctrl.SetControllerReference(app, &pods.Items[i], r.Scheme); err != nil {
			return nil, err
		}
	}
	return pods.Items, nil
}
