package ignore

import (
	ctrl "sigs.k8s.io/controller-runtime"
)

func f() ctrl.Result {
	//flyball:ignore requeu a typo // want `there is no rule "requeu"`
	_ = ctrl.Result{Requeue: true}
	/* want `no effect without a reason` */ //flyball:ignore requeue
	_ = ctrl.Result{Requeue: true}
	return ctrl.Result{} //flyball:ignore requeue because it is so
}
