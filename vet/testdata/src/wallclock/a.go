package wallclock

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

type Reconciler struct {
	client.Client
	now func() time.Time
}

func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	start := time.Now()
	var expires time.Time
	if time.Now().After(expires) { // want `a decision by the wall clock`
		return ctrl.Result{}, nil
	}
	if expires.Before(time.Now()) || time.Since(expires) > time.Hour { // want `a decision by the wall clock` `a decision by the wall clock`
		return ctrl.Result{}, nil
	}
	if r.now().After(expires) {
		return ctrl.Result{}, nil
	}
	took := time.Since(start)
	if time.Since(start) > time.Second {
		fmt.Println("slow", took)
	}
	deadline := time.Now().Add(time.Second)
	for time.Now().Before(deadline) {
	}
	_ = metav1.Now()
	r.wait(&metav1.ObjectMeta{})
	return ctrl.Result{RequeueAfter: time.Until(expires)}, nil
}

func (r *Reconciler) wait(object *metav1.ObjectMeta) {
	for time.Since(object.CreationTimestamp.Time) < time.Minute { // want `a decision by the wall clock`
		time.Sleep(time.Second)
	}
}

func elsewhere(t time.Time) bool { return time.Now().After(t) }
