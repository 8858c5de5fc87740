package latesnapshot

import (
	"context"
	"reflect"

	"api"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

type Reconciler struct {
	client.Client
}

// Reconcile sets a field, and updateStatus takes its copy after it.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	app := &api.App{}
	if err := r.Get(ctx, req.NamespacedName, app); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	app.Status.Phase = "Ready"
	return ctrl.Result{}, r.updateStatus(ctx, app, metav1.Condition{Type: "Ready", ObservedGeneration: app.Generation})
}

func (r *Reconciler) updateStatus(ctx context.Context, app *api.App, ready metav1.Condition) error {
	before := app.Status.DeepCopy() // want `the status is written if it differs from this copy, which has what line \d+ sets`
	app.Status.ObservedGeneration = app.Generation
	meta.SetStatusCondition(&app.Status.Conditions, ready)
	if reflect.DeepEqual(before, &app.Status) {
		return nil
	}
	return r.Status().Update(ctx, app)
}

// within does it in one function.
func (r *Reconciler) within(ctx context.Context, app *api.App) error {
	r.observe(app)
	before := app.Status // want `the status is written if it differs from this copy, which has what line \d+ sets`
	meta.SetStatusCondition(&app.Status.Conditions, metav1.Condition{Type: "Ready", ObservedGeneration: app.Generation})
	if !reflect.DeepEqual(before, app.Status) {
		return r.Status().Update(ctx, app)
	}
	return nil
}

func (r *Reconciler) observe(app *api.App) { app.Status.ObservedGeneration = app.Generation }

// whole copies the whole object.
func (r *Reconciler) whole(ctx context.Context, app *api.App) error {
	if app.Spec.Image == "" {
		app.Status.Phase = "Waiting"
	}
	original := app.DeepCopy() // want `the status is written if it differs from this copy, which has what line \d+ sets`
	meta.SetStatusCondition(&app.Status.Conditions, metav1.Condition{Type: "Ready", ObservedGeneration: app.Generation})
	if reflect.DeepEqual(original.Status, app.Status) {
		return nil
	}
	return r.Status().Update(ctx, app)
}

// patched never writes the phase.
func (r *Reconciler) patched(ctx context.Context, app *api.App) error {
	app.Status.Phase = "Ready"
	patch := client.MergeFrom(app.DeepCopy()) // want `the patch of the status is the difference from this copy, which has what line \d+ sets`
	meta.SetStatusCondition(&app.Status.Conditions, metav1.Condition{Type: "Ready", ObservedGeneration: app.Generation})
	return r.Status().Patch(ctx, app, patch)
}

func (r *Reconciler) patchedLater(ctx context.Context, app *api.App) error {
	app.Status.Phase = "Ready"
	before := app.DeepCopy() // want `the patch of the status is the difference from this copy, which has what line \d+ sets`
	app.Status.ObservedGeneration = app.Generation
	return r.Status().Patch(ctx, app, client.MergeFrom(before))
}
