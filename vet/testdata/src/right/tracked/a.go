// Package tracked makes objects in another namespace, and cluster-scoped ones, which have a label in place of an owner
// and are removed by a finalizer.
package tracked

import (
	"context"

	"api"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

type Reconciler struct {
	client.Client
}

const (
	finalizer      = "example.com/tracked"
	ownerName      = "example.com/owner-name"
	ownerNamespace = "example.com/owner-namespace"
)

func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	app := &api.App{}
	if err := r.Get(ctx, req.NamespacedName, app); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	labels := map[string]string{ownerName: app.Name, ownerNamespace: app.Namespace}
	if app.DeletionTimestamp != nil {
		if err := r.DeleteAllOf(ctx, &corev1.Node{}, client.MatchingLabels(labels)); err != nil {
			return ctrl.Result{}, err
		}
		if controllerutil.RemoveFinalizer(app, finalizer) {
			return ctrl.Result{}, client.IgnoreNotFound(r.Update(ctx, app))
		}
		return ctrl.Result{}, nil
	}
	if controllerutil.AddFinalizer(app, finalizer) {
		if err := r.Update(ctx, app); err != nil {
			return ctrl.Result{}, err
		}
	}
	node := &corev1.Node{}
	node.Name = app.Namespace + "-" + app.Name
	node.Labels = labels
	if err := r.Create(ctx, node); err != nil && !apierrors.IsAlreadyExists(err) {
		return ctrl.Result{}, err
	}
	return ctrl.Result{}, nil
}

func SetUp(mgr ctrl.Manager) error {
	owner := func(_ context.Context, o client.Object) []reconcile.Request {
		node, ok := o.(*corev1.Node)
		if !ok || node.Labels[ownerName] == "" {
			return nil
		}
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: node.Labels[ownerNamespace], Name: node.Labels[ownerName]}}}
	}
	return ctrl.NewControllerManagedBy(mgr).For(&api.App{}).
		Watches(&corev1.Node{}, handler.EnqueueRequestsFromMapFunc(owner)).
		Complete(&Reconciler{mgr.GetClient()})
}
