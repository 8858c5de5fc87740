// Package requeue makes the results of reconciles.
//
//upstream:none The results belong to our runtime.
package requeue

import (
	"time"

	"flyball.dev/ctrl/reconcile"
)

// After returns the result of a reconcile. With an error, the request is retried with backoff. Otherwise it comes back after a
// time, or with its next event if the time is 0.
func After(d time.Duration, err error) (reconcile.Result, error) {
	if err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: d}, nil
}
