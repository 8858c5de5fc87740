package controller

import (
	"context"
	"errors"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"flyball.dev/ctrl/reconcile"
)

// conflictThreshold is the number of consecutive conflicts that do not count as errors. With the default backoff the last
// retry comes five seconds after the first conflict: a cache that still lacks the newer object by then is no longer late but
// stuck.
const conflictThreshold = 10

// outcome is what a controller does after a reconcile.
type outcome struct {
	result string // label of reconcile_total

	resetBackoff bool // the backoff of the request is reset
	requeue      bool // the request is added again
	rateLimited  bool // with backoff
	after        time.Duration

	failed   bool // it is counted as an error
	terminal bool
	conflict bool
	verbose  bool // the error is logged at level 1 only
}

// outcomeOf maps the result and error of a reconcile to its outcome. tries is how often the request
// has been requeued with backoff since its last success; stopping is whether the controller is
// being stopped.
func outcomeOf(result reconcile.Result, err error, tries int, stopping bool) outcome {
	switch {
	case err == nil && result.RequeueAfter > 0:
		return outcome{result: resultRequeueAfter, resetBackoff: true, requeue: true, after: result.RequeueAfter}
	//lint:ignore SA1019 reconcilers still use it
	case err == nil && result.Requeue:
		return outcome{result: resultRequeue, requeue: true, rateLimited: true}
	case err == nil:
		return outcome{result: resultSuccess, resetBackoff: true}
	case errors.Is(err, reconcile.TerminalError(nil)):
		return outcome{result: resultError, resetBackoff: true, failed: true, terminal: true}
	case onlyConflicts(err):
		if tries < conflictThreshold {
			return outcome{result: resultRequeue, requeue: true, rateLimited: true, conflict: true, verbose: true}
		}
		return outcome{result: resultError, requeue: true, rateLimited: true, conflict: true, failed: true}
	default:
		interrupted := stopping && errors.Is(err, context.Canceled)
		return outcome{result: resultError, requeue: true, rateLimited: true, failed: true, verbose: interrupted}
	}
}

// onlyConflicts reports whether err is a conflict or consists of nothing but conflicts.
func onlyConflicts(err error) bool {
	var parts []error
	switch e := err.(type) {
	case interface{ Errors() []error }: // apimachinery's aggregates
		parts = e.Errors()
	case interface{ Unwrap() []error }:
		parts = e.Unwrap()
	case apierrors.APIStatus:
		return apierrors.IsConflict(err)
	default:
		inner := errors.Unwrap(err)
		return inner != nil && onlyConflicts(inner)
	}
	for _, part := range parts {
		if !onlyConflicts(part) {
			return false
		}
	}
	return len(parts) > 0
}

func (o outcome) count(m *counters) {
	m.results[o.result].Inc()
	if o.failed {
		m.errors.Inc()
	}
	if o.terminal {
		m.terminalErrors.Inc()
	}
	if o.conflict {
		m.conflicts.Inc()
	}
}

// cause is the cause of the next reconcile, if the request is requeued.
func (o outcome) cause() reconcile.CauseKind {
	switch {
	case o.conflict:
		return reconcile.CauseConflict
	case o.failed:
		return reconcile.CauseRetry
	case o.after > 0:
		return reconcile.CauseRequeueAfter
	default:
		return reconcile.CauseRequeue
	}
}

// log logs the outcome and the causes. The logger of the request is created only if something is
// logged; the level is checked with base, the controller's.
func (o outcome) log(
	base logr.Logger, logger func() logr.Logger,
	causes reconcile.Causes, result reconcile.Result, err error,
) {
	if err == nil {
		if base.V(5).Enabled() {
			logger().V(5).Info("Reconciled", "result", o.result, "requeueAfter", o.after, "causes", causes)
		}
		return
	}
	switch {
	case o.verbose && !base.V(1).Enabled():
	case o.verbose && o.conflict:
		logger().V(1).Info("Conflict, trying again", "error", err.Error(), "causes", causes)
	case o.verbose:
		logger().V(1).Info("Reconcile interrupted", "error", err.Error(), "causes", causes)
	default:
		logger().Error(err, "Reconciler error", "causes", causes)
	}
	//lint:ignore SA1019 reconcilers still use it
	if result.RequeueAfter > 0 || result.Requeue {
		logger().Info("The reconciler returned an error together with RequeueAfter or Requeue, " +
			"which are ignored if there is an error")
	}
}
