package reconcile

import (
	"context"

	"flyball.dev/ctrl/internal/cause"
)

// This file is an addition to what controller-runtime has: a reconciler can ask why it was called.
// What it does must not depend on the answer, since causes are merged and dropped and a restart
// forgets them; they are for logs, for tests and for people.

// Cause is one reason for a call: an event of an object, or the outcome of the call before.
type Cause = cause.Cause

// CauseKind says what happened. Its String is the label that metrics have.
type CauseKind = cause.Kind

// Causes are the reasons for a call, at most eight different ones, and how many there were in all.
type Causes = cause.Causes

// The kinds of causes.
const (
	// CauseAdded is a request that was put on the queue without a reason.
	CauseAdded = cause.Added
	// CauseListed is an object that was there when watching began.
	CauseListed = cause.Listed
	// CauseCreated, CauseUpdated and CauseDeleted are what happened to an object.
	CauseCreated = cause.Created
	CauseUpdated = cause.Updated
	CauseDeleted = cause.Deleted
	// CauseGeneric is an event from outside the cluster.
	CauseGeneric = cause.Generic
	// CauseResync is the periodic reminder of an object that did not change.
	CauseResync = cause.Resync
	// CauseRequeue and CauseRequeueAfter are what the reconciler asked for.
	CauseRequeue      = cause.Requeue
	CauseRequeueAfter = cause.RequeueAfter
	// CauseRetry is another try after an error, CauseConflict after a conflict.
	CauseRetry    = cause.Retry
	CauseConflict = cause.Conflict
)

// CausesFrom returns why the call that ctx belongs to is made. There are none in a context that no
// controller made, nor with a queue that does not keep them; see priorityqueue.CauseKeeper.
func CausesFrom(ctx context.Context) Causes { return cause.From(ctx) }

// WithCauses returns a context for a reconciler that asks for them.
func WithCauses(ctx context.Context, causes Causes) context.Context {
	return cause.With(ctx, causes)
}
