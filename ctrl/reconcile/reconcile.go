// Package reconcile holds the contract between a controller and the code that
// brings the world closer to what an object asks for.
//
// A reconciler is told which object to look at, never what happened to it: it
// reads the present state, compares it with the wanted one and acts. Many
// events may therefore become one call, and a call may be repeated at any time.
// A controller never calls a reconciler for the same request twice at once.
package reconcile

import (
	"context"
	"errors"
	"reflect"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"flyball.dev/ctrl/client"
)

// Request names the object to reconcile.
type Request struct {
	// NamespacedName is the object's namespace (empty for a cluster-scoped
	// object) and name.
	types.NamespacedName
}

// Result says what should happen to the request after a call without error.
// The zero Result means: nothing, until the next event.
type Result struct {
	// Requeue asks for another call after the rate limiter's delay.
	//
	// Deprecated: use RequeueAfter, which says how long to wait; the rate
	// limiter is meant for retries after errors.
	Requeue bool

	// RequeueAfter asks for another call after this long, if positive.
	RequeueAfter time.Duration

	// Priority is the priority of the next call, also after an error. If nil,
	// the request keeps the priority it had. Only a priority queue heeds it.
	Priority *int
}

// IsZero reports whether nothing was asked for. A nil Result is zero.
func (r *Result) IsZero() bool {
	return r == nil || *r == Result{}
}

// TypedReconciler brings the world closer to what a request's object asks for.
//
// An error makes the controller call again after an increasing delay, and the
// Result is then ignored but for its Priority; an error made by TerminalError
// is logged and counted but not retried.
type TypedReconciler[request comparable] interface {
	// Reconcile handles one request. It may be called from several goroutines
	// at once for different requests, never for the same one.
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

// ObjectReconciler is handed the object itself instead of its name.
// AsReconciler turns one into a Reconciler.
type ObjectReconciler[object client.Object] interface {
	Reconcile(context.Context, object) (Result, error)
}

// AsReconciler returns a Reconciler that reads the named object with c and
// hands it to rec. An object that does not exist is passed over silently. The
// type parameter must be a pointer to a struct.
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

// TerminalError marks an error as one that no retry can mend. It is logged and
// counted, but the request is not tried again until the next event. The marked
// error is found by errors.Is and errors.As; errors.Is(err, TerminalError(nil))
// tells whether err is terminal.
func TerminalError(wrapped error) error {
	return &terminalError{wrapped}
}

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
