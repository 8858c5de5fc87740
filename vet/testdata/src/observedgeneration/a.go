package observedgeneration

import (
	"context"

	"api"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

type Reconciler struct {
	client.Client
	Scheme *runtime.Scheme
}

func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	app := &api.App{}
	if err := r.Get(ctx, req.NamespacedName, app); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	return ctrl.Result{}, r.sync(ctx, app)
}

func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).For(&api.App{}).Complete(r)
}

func (r *Reconciler) sync(ctx context.Context, app *api.App) error {
	meta.SetStatusCondition(&app.Status.Conditions, metav1.Condition{Type: "Ready", Status: metav1.ConditionTrue}) // want `the condition does not say which generation it is about`
	meta.SetStatusCondition(&app.Status.Conditions, metav1.Condition{                                              // want `the condition does not say which generation it is about`
		Type:   "Ready",
		Status: metav1.ConditionTrue,
	})
	ready := metav1.Condition{Type: "Ready"} // want `the condition does not say which generation it is about`
	meta.SetStatusCondition(&app.Status.Conditions, ready)
	set := metav1.Condition{Type: "Ready"}
	set.ObservedGeneration = app.Generation
	meta.SetStatusCondition(&app.Status.Conditions, set)
	meta.SetStatusCondition(&app.Status.Conditions, metav1.Condition{Type: "Ready", ObservedGeneration: app.Generation})
	meta.SetStatusCondition(&app.Status.Conditions, condition("Ready")) // want `the condition that condition returns does not say which generation it is about`
	meta.SetStatusCondition(&app.Status.Conditions, conditionOf(app, "Ready"))
	return r.Status().Update(ctx, app)
}

func condition(name string) metav1.Condition {
	return metav1.Condition{Type: name, Status: metav1.ConditionTrue}
}

func conditionOf(app *api.App, name string) metav1.Condition {
	return metav1.Condition{Type: name, Status: metav1.ConditionTrue, ObservedGeneration: app.Generation}
}
