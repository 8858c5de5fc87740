package source

import (
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/workqueue"

	"flyball.dev/ctrl/controller/priorityqueue"
	"flyball.dev/ctrl/internal/cause"
	"flyball.dev/ctrl/reconcile"
)

// recordingQueue is a queue that keeps causes.
type recordingQueue[request comparable] interface {
	priorityqueue.PriorityQueue[request]
	priorityqueue.CauseRecorder[request]
}

// curious is a queue that sometimes wants to know what an update has changed.
type curious[request comparable] interface {
	DiffFilter(request) bool
}

// causeRecorder is the queue as the handler of one event sees it: whatever is added through it has the
// event for its cause, so handlers need not know of causes.
type causeRecorder[object any, request comparable] struct {
	recordingQueue[request]
	why           cause.Cause
	before, after object // of an update
}

// withCause returns a view of q for the handler of an event, or q itself if q keeps no causes. The kind
// gvk is that of objects that do not say their own.
func withCause[object any, request comparable](q workqueue.TypedRateLimitingInterface[request], kind cause.Kind, gvk schema.GroupVersionKind, before, after object) workqueue.TypedRateLimitingInterface[request] {
	k, ok := q.(recordingQueue[request])
	if !ok {
		return q
	}
	why := cause.Cause{Kind: kind}
	if !isNil(after) {
		why = cause.Of(kind, after)
	}
	if why.GVK.Empty() {
		why.GVK = gvk
	}
	return &causeRecorder[object, request]{k, why, before, after}
}

// updateKind is the kind of an update: if nothing has changed it is a resync.
func updateKind(before, after any) cause.Kind {
	a, okA := before.(interface{ GetResourceVersion() string })
	b, okB := after.(interface{ GetResourceVersion() string })
	if okA && okB && !isNil(before) && !isNil(after) && a.GetResourceVersion() == b.GetResourceVersion() {
		return cause.Resync
	}
	return cause.Updated
}

func (q *causeRecorder[object, request]) Add(item request) {
	q.add(priorityqueue.AddOpts{}, item)
}

func (q *causeRecorder[object, request]) AddAfter(item request, after time.Duration) {
	q.add(priorityqueue.AddOpts{After: after}, item)
}

func (q *causeRecorder[object, request]) AddRateLimited(item request) {
	q.add(priorityqueue.AddOpts{RateLimited: true}, item)
}

func (q *causeRecorder[object, request]) AddWithOpts(o priorityqueue.AddOpts, items ...request) {
	for _, item := range items {
		q.add(o, item)
	}
}

func (q *causeRecorder[object, request]) add(o priorityqueue.AddOpts, item request) {
	why := q.why
	if why.Kind == cause.Updated {
		if c, ok := q.recordingQueue.(curious[request]); ok && c.DiffFilter(item) {
			why.Changed = cause.Diff(q.before, q.after)
		}
	}
	q.AddWithCause(why, o, item)
}

var _ recordingQueue[reconcile.Request] = &causeRecorder[any, reconcile.Request]{}
