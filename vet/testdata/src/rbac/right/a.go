package right

import (
	"context"

	"api"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Reconciler copies objects to another cluster, where the markers of this one are of no use.
type Reconciler struct {
	client.Client
	HubClient client.Client
	downCl    client.Client
}

// +kubebuilder:rbac:groups={"",apps},resources={pods,secrets},verbs={get,list,"watch",create}
// +kubebuilder:rbac:groups=example.com,resources=apps,verbs=get;list;watch

func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	if err := r.Create(ctx, &corev1.Pod{}); err != nil {
		return ctrl.Result{}, err
	}
	app := &api.App{}
	if err := r.Get(ctx, req.NamespacedName, app); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if err := r.HubClient.Get(ctx, types.NamespacedName{Name: "hub"}, &corev1.ConfigMap{}); err != nil {
		return ctrl.Result{}, err
	}
	if err := r.downCl.Delete(ctx, &corev1.Service{}); err != nil {
		return ctrl.Result{}, err
	}
	if err := r.Patch(ctx, &corev1.Service{}, client.MergeFrom(&corev1.Service{})); err != nil { // by the role of config/rbac
		return ctrl.Result{}, err
	}
	return ctrl.Result{}, r.List(ctx, &appsv1.DeploymentList{}) // by the role of the chart
}
