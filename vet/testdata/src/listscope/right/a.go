package right

import (
	"context"

	"api"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const system = "kube-system"

type Reconciler struct{ client.Client }

// Reconcile uses the lists as a whole, but for a few objects.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	app := &api.App{}
	if err := r.Get(ctx, req.NamespacedName, app); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	pods := &corev1.PodList{}
	if err := r.List(ctx, pods); err != nil {
		return ctrl.Result{}, err
	}
	used, leaders := 0, 0
	for _, pod := range pods.Items {
		if pod.Name == req.Name {
			continue
		}
		if pod.Namespace == system {
			continue
		}
		if pod.Labels["role"] == "leader" {
			leaders++
		}
		if pod.Namespace != req.Namespace {
			used++
		}
	}
	deployments := &appsv1.DeploymentList{}
	if err := r.List(ctx, deployments); err != nil {
		return ctrl.Result{}, err
	}
	for _, deployment := range deployments.Items {
		// Those without the label are meant too, and no selector is for both.
		if name, ok := deployment.Labels["app"]; ok && name != app.Name {
			continue
		}
		used += leaders
	}
	return ctrl.Result{}, r.labeled(ctx, app)
}

// labeled lists all pods only if there are no labels.
func (r *Reconciler) labeled(ctx context.Context, app *api.App) error {
	pods := &corev1.PodList{}
	if err := r.List(ctx, pods, client.MatchingLabels{"app": app.Name}); err != nil {
		if err := r.List(ctx, pods); err != nil {
			return err
		}
	}
	for _, pod := range pods.Items {
		if pod.Name != app.Name {
			continue
		}
	}
	return nil
}
