package requeue

import (
	"fmt"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

func hot(ready bool, err error) (ctrl.Result, error) {
	if err != nil {
		return ctrl.Result{Requeue: true}, err // want `no effect beside an error`
	}
	if !ready {
		return ctrl.Result{Requeue: true, RequeueAfter: time.Second}, nil // want `no effect beside RequeueAfter`
	}
	if ready {
		return ctrl.Result{RequeueAfter: time.Second, Requeue: true}, fmt.Errorf("no") // want `no effect beside RequeueAfter`
	}
	return ctrl.Result{Requeue: true}, nil // want `Requeue: true is deprecated`
}

func maybe(err error) (ctrl.Result, error) {
	return ctrl.Result{Requeue: true}, err // want `Requeue: true is deprecated`
}

func assigned() (result reconcile.Result, err error) {
	result.Requeue = true // want `Requeue: true is deprecated`
	return result, nil
}

func quiet() (ctrl.Result, error) {
	_ = ctrl.Result{Requeue: false}
	//flyball:ignore requeue the queue of this controller is slow
	_ = ctrl.Result{Requeue: true}
	_ = ctrl.Result{Requeue: true} //flyball:ignore requeue as above
	return ctrl.Result{RequeueAfter: time.Minute}, nil
}
