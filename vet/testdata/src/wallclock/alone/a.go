package alone

import (
	"context"
	"time"

	"api"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Reconciler has no clock, and one would mend all of its decisions.
type Reconciler struct {
	client.Client
}

func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	app := &api.App{}
	now := time.Now()
	if now.Sub(app.CreationTimestamp.Time) > time.Hour { // want `a decision by the wall clock, which only a test in a bubble of testing/synctest can set \(3 more in this package\)`
		return ctrl.Result{}, nil
	}
	age := time.Since(app.CreationTimestamp.Time)
	if age.Seconds() > 60 {
		return ctrl.Result{}, nil
	}
	expires := app.CreationTimestamp.Time.Add(time.Hour)
	if now.After(expires) {
		return ctrl.Result{}, nil
	}
	today := metav1.Now()
	if app.CreationTimestamp.Before(&today) {
		return ctrl.Result{}, nil
	}
	if time.Since(app.CreationTimestamp.Time) > time.Hour { //flyball:ignore wallclock the test sets the timestamp
		return ctrl.Result{}, nil
	}
	return ctrl.Result{}, nil
}
