package right

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

// Reconcile takes the copy where it has read the object.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	app := &api.App{}
	if err := r.Get(ctx, req.NamespacedName, app); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	before := app.Status.DeepCopy()
	app.Status.Phase = "Ready"
	return ctrl.Result{}, r.updateStatus(ctx, app, before, metav1.Condition{Type: "Ready", ObservedGeneration: app.Generation})
}

func (r *Reconciler) updateStatus(ctx context.Context, app *api.App, before *api.AppStatus, ready metav1.Condition) error {
	meta.SetStatusCondition(&app.Status.Conditions, ready)
	if reflect.DeepEqual(before, &app.Status) {
		return nil
	}
	return r.Status().Update(ctx, app)
}

// inside sets all of the status after the copy.
func (r *Reconciler) inside(ctx context.Context, app *api.App) error {
	before := app.Status.DeepCopy()
	app.Status.Phase = "Ready"
	if reflect.DeepEqual(before, &app.Status) {
		return nil
	}
	return r.Status().Update(ctx, app)
}

// callsInside sets what nothing passes on.
func (r *Reconciler) callsInside(ctx context.Context, app *api.App) error {
	other := app.DeepCopy()
	other.Status.Phase = "Other"
	return r.inside(ctx, app)
}

// twice writes what it has set before the second copy.
func (r *Reconciler) twice(ctx context.Context, app *api.App) error {
	app.Status.Phase = "Starting"
	if err := r.Status().Update(ctx, app); err != nil {
		return err
	}
	return r.inside(ctx, app)
}

// again reads the object anew.
func (r *Reconciler) again(ctx context.Context, app *api.App) error {
	app.Status.Phase = "Starting"
	if err := r.Get(ctx, client.ObjectKeyFromObject(app), app); err != nil {
		return err
	}
	return r.inside(ctx, app)
}

// empty makes empty what is nil.
func (r *Reconciler) empty(ctx context.Context, app *api.App) error {
	if app.Status.Conditions == nil {
		app.Status.Conditions = []metav1.Condition{}
	}
	return r.inside(ctx, app)
}

// failed sets the phase on another path.
func (r *Reconciler) failed(ctx context.Context, app *api.App, err error) error {
	if err != nil {
		app.Status.Phase = "Failed"
		return r.Status().Update(ctx, app)
	}
	return r.inside(ctx, app)
}

// metadata patches the object, and not its status.
func (r *Reconciler) metadata(ctx context.Context, app *api.App) error {
	app.Status.Phase = "Ready"
	if err := r.Status().Update(ctx, app); err != nil {
		return err
	}
	patch := client.MergeFrom(app.DeepCopy())
	app.Labels = map[string]string{"a": "b"}
	return r.Patch(ctx, app, patch)
}

// logged compares for a log alone, and always writes.
func (r *Reconciler) logged(ctx context.Context, app *api.App) error {
	app.Status.Phase = "Ready"
	return r.Status().Update(ctx, app)
}

// made fills a new object.
func (r *Reconciler) made(ctx context.Context, name string) error {
	app := &api.App{}
	app.Status.Phase = "Ready"
	original := app.DeepCopy()
	original.Name = name
	return r.Create(ctx, original)
}
