// Package rootca publishes the certificate of the control plane's authority into every namespace, in
// the ConfigMap kube-root-ca.crt, where pods and clients look for it.
package rootca

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"flyball.dev/ctrl/builder"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/handler"
	"flyball.dev/ctrl/manager"
	"flyball.dev/ctrl/predicate"
	"flyball.dev/ctrl/reconcile"
)

// The name of the ConfigMap and the key of the certificate in it.
const (
	Name = "kube-root-ca.crt"
	Key  = "ca.crt"
)

// AddToManager adds the controller, which publishes the certificate in PEM. Of ConfigMaps it caches the
// metadata only; there may be many, and large ones.
func AddToManager(mgr manager.Manager, certificate []byte) error {
	published := predicate.NewPredicateFuncs(func(o client.Object) bool { return o.GetName() == Name })
	toNamespace := func(_ context.Context, o client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: o.GetNamespace()}}}
	}
	return builder.ControllerManagedBy(mgr).
		Named("root-ca-certificate-publisher").
		For(&corev1.Namespace{}).
		WatchesMetadata(&corev1.ConfigMap{}, handler.EnqueueRequestsFromMapFunc(toNamespace), builder.WithPredicates(published)).
		Complete(&reconciler{
			client: mgr.GetClient(),
			live:   mgr.GetAPIReader(),
			data:   map[string]string{Key: string(certificate)},
		})
}

type reconciler struct {
	client client.Client
	live   client.Reader
	data   map[string]string
}

// Reconcile makes the ConfigMap of one namespace what it ought to be.
func (r *reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	ns := &corev1.Namespace{}
	if err := r.client.Get(ctx, req.NamespacedName, ns); err != nil || ns.DeletionTimestamp != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	err := r.publish(ctx, ns.Name)
	if apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err) || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		err = nil // it was just made or deleted, which brings another event; or the namespace is going
	}
	return reconcile.Result{}, err
}

func (r *reconciler) publish(ctx context.Context, namespace string) error {
	there := &corev1.ConfigMap{}
	err := r.live.Get(ctx, types.NamespacedName{Namespace: namespace, Name: Name}, there)
	switch {
	case apierrors.IsNotFound(err):
		return r.client.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: Name}, Data: r.data})
	case err != nil || equality.Semantic.DeepEqual(there.Data, r.data):
		return err
	}
	there.Data, there.BinaryData = r.data, nil
	return r.client.Update(ctx, there)
}
