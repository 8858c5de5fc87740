// Package rootca publishes the certificate of the control plane's authority in every namespace, in
// the ConfigMap kube-root-ca.crt, from which pods and clients read it.
package rootca

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"flyball.dev/controllers/internal/watches"
	"flyball.dev/ctrl/builder"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/handler"
	"flyball.dev/ctrl/manager"
	"flyball.dev/ctrl/reconcile"
)

// The name of the ConfigMap and the key of the certificate in it.
const (
	//upstream:pkg/controller/certificates/rootcacertpublisher.RootCACertConfigMapName
	Name = "kube-root-ca.crt"
	Key  = "ca.crt"
)

// The annotation of the ConfigMap that describes its purpose.
//
//upstream:pkg/controller/certificates/rootcacertpublisher.DescriptionAnnotation
//upstream:pkg/controller/certificates/rootcacertpublisher.Description
const (
	descriptionAnnotation = "kubernetes.io/description"
	description           = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as " +
		"the internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes clusters."
)

// AddToManager adds the controller, which publishes a certificate in PEM. It caches only the
// metadata of ConfigMaps, which can be many and large, and reads them through live: kube-controller-manager
// has them in its cache, and the controller itself may not read them.
//
//upstream:pkg/controller/certificates/rootcacertpublisher.NewPublisher
func AddToManager(mgr manager.Manager, live client.Reader, certificate []byte) error {
	return builder.ControllerManagedBy(mgr).
		Named("root-ca-certificate-publisher").
		For(&corev1.Namespace{}).
		WatchesMetadata(&corev1.ConfigMap{}, handler.EnqueueRequestsFromMapFunc(watches.NamespaceOf),
			builder.WithPredicates(watches.Named(Name))).
		Complete(&reconciler{
			client: mgr.GetClient(),
			live:   live,
			data:   map[string]string{Key: string(certificate)},
		})
}

// reconciler reconciles the ConfigMap of a namespace.
type reconciler struct {
	client client.Client
	live   client.Reader
	data   map[string]string
}

// Reconcile creates the ConfigMap of one namespace, or restores its data.
//
//upstream:pkg/controller/certificates/rootcacertpublisher.Publisher.syncNamespace
func (r *reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	ns := &corev1.Namespace{}
	if err := r.client.Get(ctx, req.NamespacedName, ns); err != nil || ns.DeletionTimestamp != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	err := r.publish(ctx, ns.Name)
	if apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err) ||
		apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		err = nil // it was created or deleted meanwhile, which causes another event; or the namespace is terminating
	}
	return reconcile.Result{}, err
}

// publish creates or updates the ConfigMap.
//
//upstream:pkg/controller/certificates/rootcacertpublisher.Publisher.syncNamespace
func (r *reconciler) publish(ctx context.Context, namespace string) error {
	existing := &corev1.ConfigMap{}
	err := r.live.Get(ctx, types.NamespacedName{Namespace: namespace, Name: Name}, existing)
	switch {
	case apierrors.IsNotFound(err):
		return r.client.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace,
			Name: Name, Annotations: map[string]string{descriptionAnnotation: description}}, Data: r.data})
	case err != nil || equality.Semantic.DeepEqual(existing.Data, r.data) && existing.Annotations[descriptionAnnotation] != "":
		return err
	}
	existing.Data, existing.BinaryData = r.data, nil
	metav1.SetMetaDataAnnotation(&existing.ObjectMeta, descriptionAnnotation, description)
	return r.client.Update(ctx, existing)
}
