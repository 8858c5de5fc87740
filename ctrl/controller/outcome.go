package controller

import (
	"context"
	"errors"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"flyball.dev/ctrl/reconcile"
)

// conflictThreshold is how many times in a row a conflict is nothing to worry about.
const conflictThreshold = 5

// outcome is what follows from a reconcile.
type outcome struct {
	result string // label of reconcile_total

	resetBackoff bool // the request's backoff starts afresh
	requeue      bool // the request goes back into the queue
	rateLimited  bool // with backoff
	after        time.Duration

	failed   bool // it counts as an error
	terminal bool
	conflict bool
	verbose  bool // the error is logged for those who debug
}

// outcomeOf decides. tries is how often the request has been put back with backoff since it last
// succeeded; stopping says that the controller is being stopped.
func outcomeOf(result reconcile.Result, err error, tries int, stopping bool) outcome {
	switch {
	case err == nil && result.RequeueAfter > 0:
		return outcome{result: resultRequeueAfter, resetBackoff: true, requeue: true, after: result.RequeueAfter}
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

// onlyConflicts reports whether err is a conflict, or many of them and nothing else.
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

func (v outcome) count(m *counters) {
	m.results[v.result].Inc()
	if v.failed {
		m.errors.Inc()
	}
	if v.terminal {
		m.terminalErrors.Inc()
	}
	if v.conflict {
		m.conflicts.Inc()
	}
}

// cause is the cause of the reconcile that follows, if one does.
func (v outcome) cause() reconcile.CauseKind {
	switch {
	case v.conflict:
		return reconcile.CauseConflict
	case v.failed:
		return reconcile.CauseRetry
	case v.after > 0:
		return reconcile.CauseRequeueAfter
	default:
		return reconcile.CauseRequeue
	}
}

// log says what happened, if that is worth a line, and what the reconcile was for. The logger of the
// request is made only for a line that is written; base, the controller's, says whether it will be.
func (v outcome) log(base logr.Logger, logger func() logr.Logger, causes reconcile.Causes, result reconcile.Result, err error) {
	if err == nil {
		if base.V(5).Enabled() {
			logger().V(5).Info("Reconciled", "result", v.result, "requeueAfter", v.after, "causes", causes)
		}
		return
	}
	switch {
	case v.verbose && !base.V(1).Enabled():
	case v.verbose && v.conflict:
		logger().V(1).Info("Conflict, trying again", "error", err.Error(), "causes", causes)
	case v.verbose:
		logger().V(1).Info("Reconcile interrupted", "error", err.Error(), "causes", causes)
	default:
		logger().Error(err, "Reconciler error", "causes", causes)
	}
	if result.RequeueAfter > 0 || result.Requeue {
		logger().Info("The reconciler returned an error together with RequeueAfter or Requeue: with an error they have no effect")
	}
}
