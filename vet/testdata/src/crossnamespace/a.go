package crossnamespace

import (
	"context"

	"api"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

const namespaceDefault = "default"

type Reconciler struct {
	client.Client
	Scheme *runtime.Scheme
}

func (r *Reconciler) sync(ctx context.Context, app *api.App, node *corev1.Node) error {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: app.Name, Namespace: app.Spec.Namespace}}
	if err := ctrl.SetControllerReference(app, secret, r.Scheme); err != nil { // want `secret is in the namespace app.Spec.Namespace and its owner in its own`
		return err
	}
	config := &corev1.ConfigMap{}
	config.Name, config.Namespace = app.Name, "kube-system"
	if err := controllerutil.SetOwnerReference(app, config, r.Scheme); err != nil { // want `config is in the namespace "kube-system"`
		return err
	}
	own := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: app.Name, Namespace: app.Namespace}}
	if err := ctrl.SetControllerReference(app, own, r.Scheme); err != nil {
		return err
	}
	other := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: app.Name, Namespace: *app.Spec.Target}}
	if err := ctrl.SetControllerReference(app, other, r.Scheme); err != nil { // want `other is in the namespace \*app.Spec.Target`
		return err
	}
	monitor := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: app.Name, Namespace: "monitoring"}}
	if err := ctrl.SetControllerReference(app, monitor, r.Scheme); err != nil { // want `monitor is in the namespace "monitoring"`
		return err
	}
	standard := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: app.Name, Namespace: namespaceDefault}}
	if err := ctrl.SetControllerReference(app, standard, r.Scheme); err != nil { // want `standard is in the namespace namespaceDefault`
		return err
	}
	of := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: node.Name, Namespace: "kube-system"}}
	return ctrl.SetControllerReference(node, of, r.Scheme)
}
