// Package reconcile has the interface between a controller and its reconciler, the code that moves
// the actual state towards the desired state of an object.
//
// Reconciliation is level-triggered: a request identifies an object, not an event. The reconciler
// reads the actual state, compares it with the desired one and acts. Many events may therefore lead
// to one call, and a call may be repeated at any time. A controller never calls a reconciler for
// the same request concurrently.
package reconcile

import (
	"context"
	"errors"
	"reflect"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"flyball.dev/ctrl/client"
)

// Request identifies the object to reconcile.
type Request struct {
	// NamespacedName is the object's namespace (empty for a cluster-scoped object) and name.
	types.NamespacedName
}

// Result determines whether and when the request is reconciled again after a call without error.
// With the zero Result it is not, until the next event.
type Result struct {
	// Requeue requeues the request after the rate limiter's delay.
	//
	// Deprecated: use RequeueAfter, which sets the delay; the rate limiter is meant for retries
	// after errors.
	Requeue bool

	// RequeueAfter requeues the request after this delay, if positive.
	RequeueAfter time.Duration

	// Priority is the priority of the next call, also after an error. If nil, the request keeps its
	// priority. Only a priority queue uses it.
	Priority *int
}

// IsZero reports whether no field is set. A nil Result is zero.
func (r *Result) IsZero() bool {
	return r == nil || *r == Result{}
}

// TypedReconciler moves the actual state towards the desired state of a request's object.
//
// An error makes the controller call again after an increasing delay, and the Result is then
// ignored but for its Priority; an error made by TerminalError is logged and counted but not
// retried.
type TypedReconciler[request comparable] interface {
	// Reconcile handles one request. It may be called from several goroutines at once for different
	// requests, never for the same one.
	Reconcile(context.Context, request) (Result, error)
}

// Reconciler is the TypedReconciler of nearly every controller.
type Reconciler = TypedReconciler[Request]

// TypedFunc is a function that is a TypedReconciler.
type TypedFunc[request comparable] func(context.Context, request) (Result, error)

// Func is a function that is a Reconciler.
type Func = TypedFunc[Request]

// Reconcile calls the function.
func (f TypedFunc[request]) Reconcile(ctx context.Context, req request) (Result, error) {
	return f(ctx, req)
}

// ObjectReconciler is a reconciler that receives the object instead of its name. AsReconciler turns
// one into a Reconciler.
type ObjectReconciler[object client.Object] interface {
	Reconcile(context.Context, object) (Result, error)
}

// AsReconciler returns a Reconciler that reads the named object with c and passes it to rec. An
// object that does not exist is ignored. The type parameter must be a pointer to a struct.
func AsReconciler[object client.Object](c client.Client, rec ObjectReconciler[object]) Reconciler {
	kind := reflect.TypeFor[object]().Elem()
	return Func(func(ctx context.Context, req Request) (Result, error) {
		obj := reflect.New(kind).Interface().(object)
		if err := c.Get(ctx, req.NamespacedName, obj); err != nil {
			return Result{}, client.IgnoreNotFound(err)
		}
		return rec.Reconcile(ctx, obj)
	})
}

// TerminalError wraps an error that a retry cannot resolve. It is logged and counted, but the
// request is not retried; the next event reconciles it again. errors.Is and errors.As find the
// wrapped error; errors.Is(err, TerminalError(nil)) reports whether err is terminal.
func TerminalError(wrapped error) error {
	return &terminalError{wrapped}
}

// terminalError is an error after which a request is not retried.
type terminalError struct{ error }

func (e *terminalError) Error() string {
	if e.error == nil {
		return "nil terminal error"
	}
	return "terminal error: " + e.error.Error()
}

func (e *terminalError) Unwrap() error { return e.error }

func (e *terminalError) Is(target error) bool {
	var t *terminalError
	return errors.As(target, &t)
}
