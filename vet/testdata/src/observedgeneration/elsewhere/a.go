package elsewhere

import (
	"context"

	"api"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Action writes the status and its observed generation, for all reconcilers of a module.
type Action interface {
	Apply(ctx context.Context, app *api.App) error
}

type Reconciler struct {
	client.Client
	action Action
}

func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	app := &api.App{}
	if err := r.Get(ctx, req.NamespacedName, app); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	meta.SetStatusCondition(&app.Status.Conditions, metav1.Condition{Type: "Ready", Status: metav1.ConditionTrue})
	return ctrl.Result{}, r.action.Apply(ctx, app)
}
