// Package copies leaves copying and patching to helpers in another package.
package copies

import (
	"context"

	"api"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"right/copies/helper"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

type Reconciler struct {
	client.Client
}

func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (result ctrl.Result, err error) {
	cached := &api.App{}
	if err := r.Get(ctx, req.NamespacedName, cached); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	app := helper.Copy(cached)
	patcher := helper.NewPatcher(r.Client, app)
	defer func() {
		if failed := patcher.Patch(ctx, app); err == nil {
			err = failed
		}
	}()
	app.Status.Phase = "Ready"
	if app.Spec.Image == "" {
		app.Status.Phase = "Waiting"
	}
	meta.SetStatusCondition(&app.Status.Conditions, metav1.Condition{Type: "Ready", ObservedGeneration: app.Generation})
	return ctrl.Result{}, nil
}
