package source

import (
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/workqueue"

	"flyball.dev/ctrl/controller/priorityqueue"
	"flyball.dev/ctrl/internal/cause"
	"flyball.dev/ctrl/internal/reflectutil"
	"flyball.dev/ctrl/reconcile"
)

// keeper is a queue that keeps causes.
type keeper[request comparable] interface {
	priorityqueue.PriorityQueue[request]
	priorityqueue.CauseKeeper[request]
}

// curious is a queue that sometimes wants to know what an update has changed.
type curious[request comparable] interface {
	Curious(request) bool
}

// because is the queue as the handler of one event sees it: whatever is added through it has the
// event for its cause, so handlers need not know of causes.
type because[object any, request comparable] struct {
	keeper[request]
	why           cause.Cause
	before, after object // of an update
}

// explain returns a view of q for the handler of an event, or q itself if q keeps no causes. The kind
// gvk is that of objects that do not say their own.
func explain[object any, request comparable](q workqueue.TypedRateLimitingInterface[request], kind cause.Kind, gvk schema.GroupVersionKind, before, after object) workqueue.TypedRateLimitingInterface[request] {
	k, ok := q.(keeper[request])
	if !ok {
		return q
	}
	why := cause.Cause{Kind: kind}
	if !reflectutil.IsNil(after) {
		why = cause.Of(kind, after)
	}
	if why.GVK.Empty() {
		why.GVK = gvk
	}
	return &because[object, request]{k, why, before, after}
}

// updated is the kind of an update: if nothing has changed it is a resync.
func updated(before, after any) cause.Kind {
	a, okA := before.(interface{ GetResourceVersion() string })
	b, okB := after.(interface{ GetResourceVersion() string })
	if okA && okB && !reflectutil.IsNil(before) && !reflectutil.IsNil(after) && a.GetResourceVersion() == b.GetResourceVersion() {
		return cause.Resync
	}
	return cause.Updated
}

func (q *because[object, request]) Add(item request) {
	q.add(priorityqueue.AddOpts{}, item)
}

func (q *because[object, request]) AddAfter(item request, after time.Duration) {
	q.add(priorityqueue.AddOpts{After: after}, item)
}

func (q *because[object, request]) AddRateLimited(item request) {
	q.add(priorityqueue.AddOpts{RateLimited: true}, item)
}

func (q *because[object, request]) AddWithOpts(o priorityqueue.AddOpts, items ...request) {
	for _, item := range items {
		q.add(o, item)
	}
}

func (q *because[object, request]) add(o priorityqueue.AddOpts, item request) {
	why := q.why
	if why.Kind == cause.Updated {
		if c, ok := q.keeper.(curious[request]); ok && c.Curious(item) {
			why.Changed = cause.Diff(q.before, q.after)
		}
	}
	q.AddWithCause(why, o, item)
}

var _ keeper[reconcile.Request] = &because[any, reconcile.Request]{}
