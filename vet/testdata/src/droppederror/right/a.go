package right

import (
	"context"
	"errors"

	"api"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"platform"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

type Reconciler struct{ client.Client }

func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	app := &api.App{}
	if err := r.Get(ctx, req.NamespacedName, app); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if app.Spec.Image == "" {
		r.Status().Update(ctx, app)
		return ctrl.Result{Requeue: true}, nil
	}
	for range 3 {
		if app.Spec.Image == "old" {
			_ = r.Update(ctx, app)
		}
	}
	if err := r.Update(ctx, app); err != nil {
		err = platform.Wrap(err)
		_ = r.Status().Update(ctx, app)
		return ctrl.Result{}, err
	}
	if err := r.Create(ctx, app); err != nil && app.Spec.Image != "" {
		_ = r.Status().Update(ctx, app)
		return ctrl.Result{}, platform.Wrap(err)
	} else if apierrors.IsAlreadyExists(err) {
		_ = r.Status().Update(ctx, app)
		return ctrl.Result{}, err
	}
	err := r.Create(ctx, app)
	switch {
	case app.Spec.Image == "bad":
		_ = r.Status().Update(ctx, app)
		return ctrl.Result{}, errors.New("bad")
	case err != nil:
		_ = r.Status().Update(ctx, app)
		return ctrl.Result{}, err
	}
	if err := r.Delete(ctx, app); client.IgnoreNotFound(err) != nil {
		_ = r.Status().Update(ctx, app)
		return ctrl.Result{}, err
	}
	if app.Spec.Image == "none" {
		err = errors.New("none")
		_ = r.Status().Update(ctx, app)
		return ctrl.Result{}, err
	}
	if app.Spec.Image == "new" {
		return requeueLater("not old yet")
	}
	return ctrl.Result{RequeueAfter: 1}, nil
}

func requeueLater(reason string) (ctrl.Result, error) { return ctrl.Result{RequeueAfter: 1}, nil }

// The next reconcile finds a legacy pod as this one did.
func (r *Reconciler) workload(ctx context.Context, app *api.App) error {
	legacy := &corev1.Pod{}
	if err := r.Get(ctx, client.ObjectKeyFromObject(app), legacy); err == nil {
		_ = r.Delete(ctx, legacy)
	}
	return r.Create(ctx, &corev1.Service{})
}

// An event that is lost is no state that is lost.
func (r *Reconciler) record(ctx context.Context) (ctrl.Result, error) {
	_ = r.Create(ctx, &corev1.Event{})
	return ctrl.Result{}, nil
}

// The status that only tells of the progress is written again.
func (r *Reconciler) progress(ctx context.Context, app *api.App) (ctrl.Result, error) {
	app.Status.Phase = "Starting"
	_ = r.Status().Update(ctx, app)
	app.Status.Phase = "Started"
	if err := r.Status().Update(ctx, app); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{}, nil
}
