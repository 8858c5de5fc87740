package source

import (
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/workqueue"

	"flyball.dev/ctrl/internal/cause"
	"flyball.dev/ctrl/internal/queue"
	"flyball.dev/ctrl/internal/reflectutil"
	"flyball.dev/ctrl/reconcile"
	"flyball.dev/internal/objectdiff"
)

// recordingQueue is a priority queue that records causes.
type recordingQueue[request comparable] interface {
	queue.PriorityQueue[request]
	queue.CauseRecorder[request]
}

// causeRecorder is the view of a queue that is passed to a handler together with one event. The
// event becomes the cause of everything that is added, so handlers do not deal with causes. The cause is made when
// something is added: most handlers add nothing for most events.
type causeRecorder[object any, request comparable] struct {
	recordingQueue[request]
	kind          cause.Kind
	gvk           *schema.GroupVersionKind // nil if it is not known
	before, after object                   // before is the object before an update
}

var _ recordingQueue[reconcile.Request] = &causeRecorder[any, reconcile.Request]{}

// withCause returns a view of q for the handler of an event, or q itself if q records no causes.
// Typed objects do not carry their kind; for them gvk is used.
func withCause[object any, request comparable](
	q workqueue.TypedRateLimitingInterface[request],
	kind cause.Kind, gvk *schema.GroupVersionKind, before, after object,
) workqueue.TypedRateLimitingInterface[request] {
	recording, ok := q.(recordingQueue[request])
	if !ok {
		return q
	}
	return &causeRecorder[object, request]{recording, kind, gvk, before, after}
}

// cause returns the event as a cause.
func (r *causeRecorder[object, request]) cause() cause.Cause {
	c := cause.Cause{Kind: r.kind}
	if !reflectutil.IsNil(r.after) {
		c = cause.Of(r.kind, r.after)
	}
	if c.GVK.Empty() && r.gvk != nil {
		c.GVK = *r.gvk
	}
	return c
}

func (r *causeRecorder[object, request]) Add(item request) {
	r.add(queue.AddOpts{}, item)
}

func (r *causeRecorder[object, request]) AddAfter(item request, after time.Duration) {
	r.add(queue.AddOpts{After: after}, item)
}

func (r *causeRecorder[object, request]) AddRateLimited(item request) {
	r.add(queue.AddOpts{RateLimited: true}, item)
}

func (r *causeRecorder[object, request]) AddWithOpts(o queue.AddOpts, items ...request) {
	for _, item := range items {
		r.add(o, item)
	}
}

// add adds item with the cause, including what an update changed if the queue's diff filter selects
// the item.
func (r *causeRecorder[object, request]) add(o queue.AddOpts, item request) {
	c := r.cause()
	if c.Kind == cause.Updated && r.diffs(item) {
		c.Changed = objectdiff.Fields(r.before, r.after)
	}
	r.AddWithCause(c, o, item)
}

// diffs reports whether the queue's diff filter selects item.
func (r *causeRecorder[object, request]) diffs(item request) bool {
	q, ok := r.recordingQueue.(queue.DiffRecorder[request])
	if !ok {
		return false
	}
	selects := q.DiffFilter()
	return selects != nil && selects(item)
}
