// Package applied writes with server-side apply, objects that have only what it owns.
package applied

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
}

const owner = client.FieldOwner("applied")

func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	app := &api.App{}
	if err := r.Get(ctx, req.NamespacedName, app); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	config := &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Namespace: app.Namespace, Name: app.Name},
	}
	if err := ctrl.SetControllerReference(app, config, r.Scheme); err != nil {
		return ctrl.Result{}, err
	}
	if err := r.Patch(ctx, config, client.Apply, owner, client.ForceOwnership); err != nil {
		return ctrl.Result{}, err
	}
	status := &api.App{
		TypeMeta:   metav1.TypeMeta{APIVersion: "example.com/v1", Kind: "App"},
		ObjectMeta: metav1.ObjectMeta{Namespace: app.Namespace, Name: app.Name},
		Status: api.AppStatus{Phase: "Ready", ObservedGeneration: app.Generation,
			Conditions: []metav1.Condition{{Type: "Ready", Status: metav1.ConditionTrue, ObservedGeneration: app.Generation}}},
	}
	return ctrl.Result{}, r.Status().Patch(ctx, status, client.Apply, owner, client.ForceOwnership)
}
