// Package reconciles records the reconciles of operators and what each has written, from the spans
// of the runtime.
package reconciles

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"flyball.dev/ctrl/client"
)

// Reconcile is one reconcile that has ended.
type Reconcile struct {
	// Controller is the name of the controller.
	Controller string
	// Start is when it started.
	Start time.Time
	// Object is the object that was reconciled.
	Object types.NamespacedName
	// Causes are the events that enqueued the object, such as "updated Secret default/db at 12".
	Causes []string
	// Result is as in the metric controller_runtime_reconcile_total.
	Result string
	// RequeueAfter is after how long the object is enqueued again, such as "1s", or "".
	RequeueAfter string
	// Writes are the requests to write that succeeded, such as "PATCH databases/status". Events are
	// not among them: a recorder sends them later.
	Writes []string
}

// causedBy reports whether a write of an object is a cause of r: the one that resulted in this resource version, or a later one, since a
// reconcile has only the newest of several events of an object.
func (r Reconcile) causedBy(kind schema.GroupKind, name types.NamespacedName, resourceVersion string) bool {
	return slices.ContainsFunc(r.Causes, func(cause string) bool {
		_, after, found := strings.Cut(cause, fmt.Sprintf(" %s %s at ", kind, strings.TrimPrefix(name.String(), "/")))
		version, _, _ := strings.Cut(after, " ")
		order, err := resourceversion.CompareResourceVersion(version, resourceVersion)
		return found && err == nil && order >= 0
	})
}

// succeeded reports whether r is not retried.
func (r Reconcile) succeeded() bool { return r.Result == "success" || r.Result == "requeue_after" }

// Recorder records reconciles. It is safe for concurrent use.
type Recorder struct {
	mu      sync.Mutex
	ended   []Reconcile
	writes  map[trace.SpanID][]string // of the reconciles that have not ended
	changed chan struct{}             // closed when a reconcile ends
}

// NewRecorder returns a recorder without reconciles.
func NewRecorder() *Recorder {
	return &Recorder{writes: map[trace.SpanID][]string{}, changed: make(chan struct{})}
}

// Provider returns the provider of spans from which r records. It is for the option
// Controller.TracerProvider of managers.
func (r *Recorder) Provider() trace.TracerProvider {
	return sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(processor{r}))
}

// Ended returns the reconciles that have ended, in that order.
func (r *Recorder) Ended() []Reconcile {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.ended)
}

// Await waits until a condition is true of the reconciles that have ended, which it must not
// change. The condition returns "" if it is true, and else the missing part, which is the error if
// ctx ends before.
func (r *Recorder) Await(ctx context.Context, condition func([]Reconcile) string) error {
	for {
		r.mu.Lock()
		ended, changed := slices.Clip(r.ended), r.changed
		r.mu.Unlock()
		missing := condition(ended)
		if missing == "" {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return errors.New(missing)
		}
	}
}

// AwaitCausedBy waits until a reconcile of a key has succeeded that was caused by the last write of an object, or by a later one, or
// is the retry of one that was. The first n reconciles do not count. The client knows the kind of the object.
func (r *Recorder) AwaitCausedBy(ctx context.Context, c client.Client, n int, key types.NamespacedName, o client.Object) error {
	kind, err := c.GroupVersionKindFor(o)
	if err != nil {
		return err
	}
	return r.Await(ctx, func(all []Reconcile) string {
		caused := false
		for _, reconcile := range all[n:] {
			if reconcile.Object != key {
				continue
			}
			caused = caused || reconcile.causedBy(kind.GroupKind(), client.ObjectKeyFromObject(o), o.GetResourceVersion())
			if caused && reconcile.succeeded() {
				return ""
			}
		}
		return fmt.Sprintf("no reconcile of %s was caused by %s %s at %s", key, kind.Kind, o.GetName(), o.GetResourceVersion())
	})
}

// processor receives the spans: one of each reconcile, with one of each request below it.
type processor struct{ *Recorder }

func (p processor) OnStart(context.Context, sdktrace.ReadWriteSpan) {}

// OnEnd records the span of a write, which ends before the span of its reconcile, or of a reconcile.
func (p processor) OnEnd(span sdktrace.ReadOnlySpan) {
	if controller, ok := strings.CutPrefix(span.Name(), "reconcile "); ok {
		p.endReconcile(controller, span)
		return
	}
	method, _, _ := strings.Cut(span.Name(), " ")
	switch method {
	case http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete:
		if !succeeded(span) {
			return
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		reconcile := span.Parent().SpanID()
		p.writes[reconcile] = append(p.writes[reconcile], span.Name())
	}
}

// succeeded reports whether the response to a request is a success.
func succeeded(span sdktrace.ReadOnlySpan) bool {
	return slices.ContainsFunc(span.Attributes(), func(a attribute.KeyValue) bool {
		return a.Key == "http.response.status_code" && a.Value.AsInt64() < http.StatusMultipleChoices
	})
}

// endReconcile records a reconcile.
func (p processor) endReconcile(controller string, span sdktrace.ReadOnlySpan) {
	ended := Reconcile{Controller: controller, Start: span.StartTime()}
	for _, a := range span.Attributes() {
		switch a.Key {
		case "k8s.namespace.name":
			ended.Object.Namespace = a.Value.AsString()
		case "k8s.object.name":
			ended.Object.Name = a.Value.AsString()
		case "flyball.causes":
			ended.Causes = a.Value.AsStringSlice()
		case "flyball.result":
			ended.Result = a.Value.AsString()
		case "flyball.requeue_after":
			ended.RequeueAfter = a.Value.AsString()
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	id := span.SpanContext().SpanID()
	ended.Writes = p.writes[id]
	delete(p.writes, id)
	p.ended = append(p.ended, ended)
	close(p.changed)
	p.changed = make(chan struct{})
}

func (p processor) Shutdown(context.Context) error   { return nil }
func (p processor) ForceFlush(context.Context) error { return nil }
