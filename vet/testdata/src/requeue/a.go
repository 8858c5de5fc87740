package requeue

import (
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
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
		return ctrl.Result{RequeueAfter: time.Second, Requeue: true}, fmt.Errorf("no") // want `no effect beside an error`
	}
	return ctrl.Result{Requeue: true}, nil // want `Requeue: true is deprecated, and leaves the time`
}

func maybe(err error) (ctrl.Result, error) {
	return ctrl.Result{Requeue: true}, err // want `Requeue: true is deprecated, and leaves the time`
}

func assigned() (result reconcile.Result, err error) {
	result.Requeue = true // want `Requeue: true is deprecated, and leaves the time`
	return result, nil
}

func quiet() (ctrl.Result, error) {
	_ = ctrl.Result{Requeue: false}
	//flyball:ignore requeue the queue of this controller is slow
	_ = ctrl.Result{Requeue: true}
	_ = ctrl.Result{Requeue: true} //flyball:ignore requeue as above
	return ctrl.Result{RequeueAfter: time.Minute}, nil
}

const pause = time.Minute

func zero(pause time.Duration) (result ctrl.Result, err error) {
	if pause < time.Second {
		return ctrl.Result{Requeue: true, RequeueAfter: pause}, nil // want `an effect here only if pause is 0`
	}
	result.RequeueAfter = time.Until(time.Time{})
	result.Requeue = true // want `an effect here only if time.Until\(time.Time{}\) is 0`
	return result, nil
}

func constant() (result ctrl.Result, err error) {
	result.RequeueAfter = pause
	result.Requeue = true // want `no effect beside RequeueAfter`
	return result, nil
}

// merged passes on what other reconcilers ask for.
func merged(results ...ctrl.Result) (all ctrl.Result) {
	for _, result := range results {
		if result.Requeue {
			all.Requeue = true
		}
		if result.Requeue && result.RequeueAfter == 0 {
			return ctrl.Result{Requeue: true}
		}
	}
	return all
}

func overridden(err error) (ctrl.Result, error) {
	if err != nil {
		return ctrl.Result{RequeueAfter: pause}, fmt.Errorf("no: %w", err) // want `RequeueAfter has no effect beside an error`
	}
	if err := fmt.Errorf("no"); err != nil {
		return ctrl.Result{RequeueAfter: 0}, err
	}
	return ctrl.Result{RequeueAfter: pause}, err
}

func wrapped(err error) (ctrl.Result, error) {
	if err != nil {
		err = fmt.Errorf("wrapped: %w", err)
		return ctrl.Result{RequeueAfter: pause}, err // want `RequeueAfter has no effect beside an error`
	}
	return ctrl.Result{}, nil
}

func ignored(err error) (ctrl.Result, error) {
	if err != nil {
		return ctrl.Result{RequeueAfter: pause}, client.IgnoreNotFound(err)
	}
	if err != nil {
		err = client.IgnoreNotFound(err)
		return ctrl.Result{RequeueAfter: pause}, err
	}
	if err != nil {
		err = nil
		return ctrl.Result{RequeueAfter: pause}, err
	}
	return ctrl.Result{}, nil
}

func known(err error, ready bool) (ctrl.Result, error) {
	if client.IgnoreNotFound(err) != nil {
		return ctrl.Result{RequeueAfter: pause}, err // want `RequeueAfter has no effect beside an error`
	}
	if err != nil && ready {
		return ctrl.Result{RequeueAfter: pause}, err // want `RequeueAfter has no effect beside an error`
	}
	if !ready {
		err := errors.New("not ready")
		return ctrl.Result{RequeueAfter: pause}, err // want `RequeueAfter has no effect beside an error`
	}
	if ready {
		err = errors.New("ready")
		err = nil
		return ctrl.Result{RequeueAfter: pause}, err
	}
	if err != nil || ready {
		return ctrl.Result{RequeueAfter: pause}, err
	}
	return ctrl.Result{}, nil
}

func conflict(err error) (ctrl.Result, error) {
	if err != nil {
		if apierrors.IsConflict(err) {
			return ctrl.Result{Requeue: true}, nil // the rate limiter tries again, and nothing is logged
		}
		return ctrl.Result{}, err
	}
	return ctrl.Result{}, nil
}

type object struct{ status struct{ message string } }

func (o *object) SetCondition(name string, err error) error { return err }
func (o *object) update() error                             { return nil }

func shown(o, other *object, transient bool, err error) (ctrl.Result, error) {
	if err != nil {
		err = fmt.Errorf("no: %w", err)
		_ = o.SetCondition("Synced", err)
		return ctrl.Result{Requeue: true}, nil // the condition says what has failed
	}
	if err != nil {
		o.status.message = err.Error()
		return ctrl.Result{Requeue: true}, o.update()
	}
	if err != nil {
		if e := o.SetCondition("Synced", err); e != nil {
			return ctrl.Result{}, e
		}
		return ctrl.Result{Requeue: true}, nil
	}
	if err != nil {
		return ctrl.Result{Requeue: true}, o.SetCondition("Synced", err)
	}
	if err != nil {
		if transient {
			return ctrl.Result{Requeue: true}, nil // want `Requeue: true is deprecated, and leaves the time`
		}
		o.status.message = err.Error()
	}
	if err != nil {
		o.status.message = "failed"
		return ctrl.Result{Requeue: true}, o.update() // want `Requeue: true is deprecated, and leaves the time`
	}
	if err == nil {
		_ = o.SetCondition("Synced", err)
		return ctrl.Result{Requeue: true}, o.update() // want `Requeue: true is deprecated, and leaves the time`
	}
	if other != nil {
		o.status.message = other.status.message
		return ctrl.Result{Requeue: true}, o.update() // want `Requeue: true is deprecated, and leaves the time`
	}
	return ctrl.Result{}, nil
}
