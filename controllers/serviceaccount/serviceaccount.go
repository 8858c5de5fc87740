// Package serviceaccount creates the service account "default" in every namespace, which pods use
// that have no other.
package serviceaccount

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/controllers/internal/watches"
	"flyball.dev/ctrl/builder"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/handler"
	"flyball.dev/ctrl/manager"
	"flyball.dev/ctrl/reconcile"
)

// name is the name of the service account.
//
//upstream:pkg/controller/serviceaccount.DefaultServiceAccountsControllerOptions
const name = "default"

// AddToManager adds the controller.
//
//upstream:pkg/controller/serviceaccount.NewServiceAccountsController
func AddToManager(mgr manager.Manager) error {
	return builder.ControllerManagedBy(mgr).
		Named("serviceaccount").
		For(&corev1.Namespace{}).
		Watches(&corev1.ServiceAccount{}, handler.EnqueueRequestsFromMapFunc(watches.NamespaceOf),
			builder.WithPredicates(watches.Named(name))).
		Complete(&reconciler{mgr.GetClient()})
}

// reconciler reconciles the service account of a namespace.
type reconciler struct{ client client.Client }

// Reconcile creates the service account of one namespace if it does not exist.
//
//upstream:pkg/controller/serviceaccount.ServiceAccountsController.syncNamespace
func (r *reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	ns := &corev1.Namespace{}
	if err := r.client.Get(ctx, req.NamespacedName, ns); err != nil || ns.DeletionTimestamp != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: name}}
	err := r.client.Get(ctx, client.ObjectKeyFromObject(account), &corev1.ServiceAccount{})
	if apierrors.IsNotFound(err) {
		err = r.client.Create(ctx, account)
	}
	if apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err) ||
		apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		err = nil // it was created meanwhile, or the namespace is terminating
	}
	return reconcile.Result{}, err
}
