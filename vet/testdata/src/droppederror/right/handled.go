package right

import (
	"context"

	"api"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

type Handling struct{ client.Client }

func (r *Handling) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	app := &api.App{}
	if err := r.Create(ctx, &corev1.Pod{}); err != nil {
		if !apierrors.IsAlreadyExists(err) {
			return ctrl.Result{}, err
		}
		return ctrl.Result{}, nil
	}
	if err := r.Create(ctx, &corev1.Service{}); err != nil {
		// The status says it, and its event is the cause of another reconcile.
		app.Status.Phase = "Failed"
		if err := r.Status().Update(ctx, app); err != nil {
			return ctrl.Result{}, err
		}
		return ctrl.Result{}, nil
	}
	if err := r.Create(ctx, &corev1.Event{}); err != nil {
		return ctrl.Result{}, nil
	}
	if err := r.Update(ctx, app); err != nil {
		return ctrl.Result{RequeueAfter: 1}, nil
	}
	if err := r.Get(ctx, req.NamespacedName, app); err == nil {
		return ctrl.Result{}, nil
	}
	return ctrl.Result{}, nil
}
