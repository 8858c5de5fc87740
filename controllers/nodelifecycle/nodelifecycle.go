// Package nodelifecycle taints nodes by their conditions, so that pods are not scheduled to nodes
// that are not ready or are cordoned. It gives no node a taint that evicts pods.
package nodelifecycle

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"flyball.dev/controllers/internal/nodestate"
	"flyball.dev/ctrl/builder"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/manager"
	"flyball.dev/ctrl/reconcile"
)

// AddToManager adds the controller.
//
//upstream:pkg/controller/nodelifecycle.NewNodeLifecycleController
func AddToManager(mgr manager.Manager) error {
	return builder.ControllerManagedBy(mgr).
		Named("node-lifecycle").
		For(&corev1.Node{}).
		Complete(&reconciler{mgr.GetClient()})
}

// reconciler reconciles the taints of nodes.
type reconciler struct{ client client.Client }

// Reconcile sets the taints of one node.
//
//upstream:pkg/controller/nodelifecycle.Controller.doNoScheduleTaintingPass
func (r *reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	node := &corev1.Node{}
	if err := r.client.Get(ctx, req.NamespacedName, node); err != nil || node.DeletionTimestamp != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	taints := nodestate.Taints(node)
	if equality.Semantic.DeepEqual(taints, node.Spec.Taints) {
		return reconcile.Result{}, nil
	}
	node.Spec.Taints = taints
	return reconcile.Result{}, client.IgnoreNotFound(r.client.Update(ctx, node))
}
