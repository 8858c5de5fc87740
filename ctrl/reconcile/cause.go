package reconcile

import (
	"context"

	"flyball.dev/ctrl/internal/cause"
)

// This file is an addition to what controller-runtime has: a reconciler can look up why it was
// called. Its result must not depend on that, since causes are merged, bounded in number and lost
// by a restart; they are meant for logs, tests and debugging.

// Cause is one reason for a reconcile: an event of an object, or the outcome of the previous
// reconcile.
type Cause = cause.Cause

// CauseKind is the kind of a cause. Its String is the label of metrics.
type CauseKind = cause.Kind

// Causes are the causes of a reconcile, at most eight different ones, and their total number.
type Causes = cause.Causes

// The kinds of causes.
const (
	// CauseAdded is a request that was added to the queue without a cause.
	CauseAdded = cause.Added
	// CauseListed is an object of the initial list.
	CauseListed = cause.Listed
	// CauseCreated, CauseUpdated and CauseDeleted are the events of an object.
	CauseCreated = cause.Created
	CauseUpdated = cause.Updated
	CauseDeleted = cause.Deleted
	// CauseGeneric is an event from outside the cluster.
	CauseGeneric = cause.Generic
	// CauseResync is the periodic resync of an object that did not change.
	CauseResync = cause.Resync
	// CauseRequeue and CauseRequeueAfter are requests of the reconciler itself.
	CauseRequeue      = cause.Requeue
	CauseRequeueAfter = cause.RequeueAfter
	// CauseRetry is a retry after an error, CauseConflict one after a conflict.
	CauseRetry    = cause.Retry
	CauseConflict = cause.Conflict
	// CauseManual is an act of a person in the console.
	CauseManual = cause.Manual
)

// CausesFrom returns the causes of the reconcile that ctx belongs to. There are none in a context
// that was not created by a controller, nor with a queue that is not a priorityqueue.CauseRecorder.
func CausesFrom(ctx context.Context) Causes { return cause.From(ctx) }

// WithCauses returns a context with causes, for tests of reconcilers.
func WithCauses(ctx context.Context, causes Causes) context.Context {
	return cause.With(ctx, causes)
}
