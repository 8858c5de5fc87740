package right

import (
	"context"

	"api"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

type Reconciler struct {
	client.Client
	Scheme *runtime.Scheme
	log    func(...any)
}

// Tenant is cluster-scoped, so its children may be in any namespace.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=tenants,scope=Cluster,shortName=tn
type Tenant struct {
	api.App
}

func (r *Reconciler) tenant(ctx context.Context, tenant *Tenant) error {
	r.log("name", tenant.Name, "namespace", tenant.Namespace)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: tenant.Name, Namespace: "tenant-system"}}
	if err := ctrl.SetControllerReference(tenant, secret, r.Scheme); err != nil {
		return err
	}
	return r.Create(ctx, secret)
}

// The owner is set only in its own namespace.
func (r *Reconciler) guarded(ctx context.Context, app *api.App) error {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: app.Name, Namespace: app.Spec.Namespace}}
	if app.Spec.Namespace == app.Namespace {
		if err := ctrl.SetControllerReference(app, secret, r.Scheme); err != nil {
			return err
		}
	}
	return r.Create(ctx, secret)
}

const operatorNamespace = "example-operator"

// The configuration of the operator is in its namespace, as what it owns.
func (r *Reconciler) configuration(ctx context.Context, app *api.App) error {
	r.log("name", app.Name, "namespace", app.Namespace)
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: app.Name, Namespace: operatorNamespace}}
	if err := ctrl.SetControllerReference(app, config, r.Scheme); err != nil {
		return err
	}
	defaults := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: app.Name, Namespace: "example-system"}}
	if err := ctrl.SetControllerReference(app, defaults, r.Scheme); err != nil {
		return err
	}
	return r.Create(ctx, config)
}

// A namespace that is only a default is replaced before.
func (r *Reconciler) moved(ctx context.Context, app *api.App) error {
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: app.Name, Namespace: "default"}}
	config.SetNamespace(app.Namespace)
	if err := ctrl.SetControllerReference(app, config, r.Scheme); err != nil {
		return err
	}
	return r.Create(ctx, config)
}

// The namespace is another after the owner is set in this one.
func (r *Reconciler) copied(ctx context.Context, app *api.App) error {
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: app.Name, Namespace: app.Namespace}}
	if err := ctrl.SetControllerReference(app, config, r.Scheme); err != nil {
		return err
	}
	if err := r.Create(ctx, config); err != nil {
		return err
	}
	config = &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: app.Name, Namespace: "default"}}
	return r.Create(ctx, config)
}
