package cluster

import (
	"context"

	"api"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Reconciler owns a cluster-scoped kind, which its own objects in namespaces cannot.
type Reconciler struct {
	client.Client
}

func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	app := &api.App{}
	if err := r.Get(ctx, req.NamespacedName, app); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: app.Name}}
	return ctrl.Result{}, r.Create(ctx, node) // want `this Node gets no owner, so Owns does not see it: call SetControllerReference, or if its owner is in a namespace`
}

func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).For(&api.App{}).Owns(&corev1.Node{}).Complete(r)
}
