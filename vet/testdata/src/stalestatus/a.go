package stalestatus

import (
	"context"

	"api"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

type Reconciler struct {
	client.Client
	Scheme *runtime.Scheme
}

func (r *Reconciler) lost(ctx context.Context, app *api.App) error {
	app.Status.Phase = "Ready"
	if err := r.Update(ctx, app); err != nil {
		app.Status.Phase = "Failed"
		return r.Status().Update(ctx, app)
	}
	return r.Status().Update(ctx, app) // want `the changes of the status of app are lost: the response to the Update of line \d+`
}

func (r *Reconciler) conditions(ctx context.Context, app *api.App) error {
	meta.SetStatusCondition(&app.Status.Conditions, metav1.Condition{Type: "Ready"})
	if app.Spec.Image == "" {
		app.Spec.Image = "x"
		before := client.MergeFrom(app.DeepCopy())
		if err := r.Patch(ctx, app, before); err != nil {
			return err
		}
	}
	return r.Status().Update(ctx, app) // want `the changes of the status of app are lost: the response to the Patch of line \d+`
}

func (r *Reconciler) copied(ctx context.Context, app *api.App) error {
	changed := app.DeepCopy()
	changed.Spec.Image = "x"
	if err := r.Update(ctx, changed); err != nil {
		return err
	}
	app.Status.Phase = "Ready"
	if app.Spec.Image == "" {
		return nil
	}
	return r.Status().Update(ctx, app)
}

func (r *Reconciler) stale(ctx context.Context, app *api.App) error {
	changed := app.DeepCopy()
	changed.Spec.Image = "x"
	if err := r.Update(ctx, changed); err != nil {
		return err
	}
	return r.Status().Update(ctx, app) // want `app is stale: the Update of line \d+ wrote its copy changed`
}

func (r *Reconciler) fresh(ctx context.Context, app *api.App) error {
	app.Status.Phase = "Ready"
	if err := r.Update(ctx, app); err != nil {
		return err
	}
	app.Status.Phase = "Ready"
	if err := r.Status().Update(ctx, app); err != nil {
		return err
	}
	changed := app.DeepCopy()
	if err := r.Update(ctx, changed); err != nil {
		return err
	}
	if err := r.Get(ctx, client.ObjectKeyFromObject(app), app); err != nil {
		return err
	}
	return r.Status().Update(ctx, app)
}

func (r *Reconciler) branches(ctx context.Context, app *api.App) error {
	if app.Spec.Image == "" {
		app.Status.Phase = "Invalid"
		return r.Status().Update(ctx, app)
	}
	if err := r.Update(ctx, app); err != nil {
		return err
	}
	return r.Status().Update(ctx, app)
}

func (r *Reconciler) inside(ctx context.Context, app *api.App) error {
	err := r.ready(app)
	if app.Spec.Image == "" {
		if err := r.Update(ctx, app); err != nil {
			return err
		}
	}
	if err := r.Status().Update(ctx, app); err != nil { // want `the changes of the status of app are lost: the response to the Update of line \d+`
		return err
	}
	return err
}

func (r *Reconciler) ready(app *api.App) error {
	app.Spec.Image = "x"
	r.phase(app, "Ready")
	return nil
}

func (r *Reconciler) phase(app *api.App, phase string) {
	app.Status.Phase = phase
}

func (r *Reconciler) outside(ctx context.Context, app *api.App) error {
	if err := r.failed(ctx, app); err != nil {
		return err
	}
	if err := r.invalid(app); err != nil {
		return r.Status().Update(ctx, app)
	}
	if err := r.Update(ctx, app); err != nil {
		return err
	}
	return r.Status().Update(ctx, app)
}

func (r *Reconciler) failed(ctx context.Context, app *api.App) error {
	app.Status.Phase = "Failed"
	return r.Status().Update(ctx, app)
}

func (r *Reconciler) invalid(app *api.App) error {
	if app.Spec.Image == "" {
		app.Status.Phase = "Invalid"
	}
	return nil
}
