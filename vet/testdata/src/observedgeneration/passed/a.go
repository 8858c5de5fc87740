package passed

import (
	"context"

	"api"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

type Reconciler struct{ client.Client }

func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	app := &api.App{}
	if err := r.Get(ctx, req.NamespacedName, app); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if err := r.update(ctx, app, metav1.Condition{Type: "Ready", Status: metav1.ConditionTrue}); err != nil {
		return ctrl.Result{}, err
	}
	if err := r.update(ctx, app, ready()); err != nil {
		return ctrl.Result{}, err
	}
	if err := r.complete(ctx, app, ready()); err != nil {
		return ctrl.Result{}, err
	}
	if err := r.mixed(ctx, app, ready()); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{}, r.mixed(ctx, app, metav1.Condition{Type: "Ready", ObservedGeneration: app.Generation})
}

func ready() metav1.Condition { return metav1.Condition{Type: "Ready", Status: metav1.ConditionTrue} }

func (r *Reconciler) update(ctx context.Context, app *api.App, condition metav1.Condition) error {
	meta.SetStatusCondition(&app.Status.Conditions, condition) // want `set condition.ObservedGeneration = app.Generation before`
	return r.Status().Update(ctx, app)
}

func (r *Reconciler) complete(ctx context.Context, app *api.App, condition metav1.Condition) error {
	condition.ObservedGeneration = app.Generation
	meta.SetStatusCondition(&app.Status.Conditions, condition)
	return r.Status().Update(ctx, app)
}

// Some callers set it.
func (r *Reconciler) mixed(ctx context.Context, app *api.App, condition metav1.Condition) error {
	meta.SetStatusCondition(&app.Status.Conditions, condition)
	return r.Status().Update(ctx, app)
}
