package right

import (
	"context"
	"fmt"
	"time"

	"api"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

type Reconciler struct {
	client.Client
}

// Reconcile computes when to reconcile again, and measures itself.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (result ctrl.Result, err error) {
	start := time.Now()
	defer func() {
		if took := time.Since(start); took > time.Second {
			fmt.Println("slow", took)
		}
	}()
	app := &api.App{}
	if left := time.Until(app.CreationTimestamp.Time); left > 0 {
		result.RequeueAfter = left
	}
	if time.Until(app.CreationTimestamp.Time) < result.RequeueAfter {
		result.RequeueAfter = time.Until(app.CreationTimestamp.Time)
	}
	giveUp := start.Add(time.Minute)
	for time.Now().Before(giveUp) {
	}
	return result, nil
}
