// Package config holds the settings that many controllers share.
package config

import (
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel/trace"
)

// Controller holds the defaults of the options of a manager's controllers.
type Controller struct {
	// SkipNameValidation lets two controllers have the same name. Names label
	// metrics and logs, so this is for tests mostly. False if nil.
	SkipNameValidation *bool

	// GroupKindConcurrency gives the number of workers of a controller by the
	// kind that the builder's For named, written as GroupKind.String() writes
	// it: "ReplicaSet.apps", or "Pod" for the core group.
	GroupKindConcurrency map[string]int

	// MaxConcurrentReconciles is the number of workers of a controller that
	// neither sets it nor is in GroupKindConcurrency. 1 if zero.
	MaxConcurrentReconciles int

	// CacheSyncTimeout limits the wait for the caches when a controller starts.
	// 2 minutes if zero.
	CacheSyncTimeout time.Duration

	// RecoverPanic turns a panic in a reconciler into an error. True if nil.
	RecoverPanic *bool

	// NeedLeaderElection makes controllers run only in the leader. True if nil.
	NeedLeaderElection *bool

	// EnableWarmup starts a controller's sources, and with them the caches,
	// before the process leads, so that taking over is quick. It changes
	// nothing for controllers that do not need leader election. False if nil.
	EnableWarmup *bool

	// UsePriorityQueue gives controllers a queue with priorities. True if nil.
	UsePriorityQueue *bool

	// Logger is the base of the controllers' loggers.
	Logger logr.Logger

	// ReconciliationTimeout limits the context of each Reconcile call. No limit
	// if zero.
	ReconciliationTimeout time.Duration

	// The following fields are additions to what controller-runtime has.

	// HungAfter is how long a reconcile may run before it is reported once, in the log with the
	// stack of its goroutine and in flyball_controller_hung_reconciles_total. It is not cancelled.
	// 5 minutes if zero; never if negative.
	HungAfter time.Duration

	// DetectHotLoops makes a controller detect requests that are reconciled again
	// and again because of the reconciler's own writes; see HotLoop for the criteria
	// and the cost. If false, no writes are recorded, OnHotLoop is not called and
	// nothing is logged or counted. True if nil.
	DetectHotLoops *bool

	// OnHotLoop is called for each detected hot loop, instead of logging it; tests can fail in it.
	// It is called by a worker, which it blocks.
	OnHotLoop func(HotLoop)

	// TracerProvider creates the spans: one for each reconcile, and a child span for each request
	// that is made with the reconcile's context. If nil, it is the one that is registered with
	// OpenTelemetry when a controller starts; without one, tracing has no overhead.
	TracerProvider trace.TracerProvider
}
