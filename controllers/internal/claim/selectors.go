package claim

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"

	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/event"
	"flyball.dev/ctrl/handler"
	"flyball.dev/ctrl/reconcile"
)

// Selectors is an index of the selectors of the owners of a kind, by namespace. It is the event handler of the owners,
// which enqueues them and updates the index. [Selectors.Of] does not read the cache: an owner that is not in the index
// yet is enqueued by its own event.
type Selectors struct {
	selector func(client.Object) labels.Selector

	mu          sync.RWMutex
	byNamespace map[string]map[string]labels.Selector // by name
}

var _ handler.EventHandler = &Selectors{}

// NewSelectors returns an empty index. The function returns the selector of an owner, or nil if it
// selects nothing.
func NewSelectors(selector func(client.Object) labels.Selector) *Selectors {
	return &Selectors{selector: selector, byNamespace: map[string]map[string]labels.Selector{}}
}

// Of returns requests for the owners in an object's namespace that select it. It is a
// [handler.MapFunc].
func (s *Selectors) Of(_ context.Context, o client.Object) []reconcile.Request {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var requests []reconcile.Request
	for name, selector := range s.byNamespace[o.GetNamespace()] {
		if selector.Matches(labels.Set(o.GetLabels())) {
			key := types.NamespacedName{Namespace: o.GetNamespace(), Name: name}
			requests = append(requests, reconcile.Request{NamespacedName: key})
		}
	}
	return requests
}

// set sets the selector of an owner, nil if it selects nothing.
func (s *Selectors) set(owner client.Object, selector labels.Selector) {
	namespace, name := owner.GetNamespace(), owner.GetName()
	s.mu.Lock()
	defer s.mu.Unlock()
	owners := s.byNamespace[namespace]
	switch {
	case selector == nil:
		if delete(owners, name); len(owners) == 0 {
			delete(s.byNamespace, namespace)
		}
	case owners == nil:
		s.byNamespace[namespace] = map[string]labels.Selector{name: selector}
	default:
		owners[name] = selector
	}
}

// queue is the queue of a controller.
type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// Create implements [handler.EventHandler].
func (s *Selectors) Create(ctx context.Context, e event.CreateEvent, q queue) {
	s.set(e.Object, s.selector(e.Object))
	(&handler.EnqueueRequestForObject{}).Create(ctx, e, q)
}

// Update implements [handler.EventHandler].
func (s *Selectors) Update(ctx context.Context, e event.UpdateEvent, q queue) {
	s.set(e.ObjectNew, s.selector(e.ObjectNew))
	(&handler.EnqueueRequestForObject{}).Update(ctx, e, q)
}

// Delete implements [handler.EventHandler].
func (s *Selectors) Delete(ctx context.Context, e event.DeleteEvent, q queue) {
	s.set(e.Object, nil)
	(&handler.EnqueueRequestForObject{}).Delete(ctx, e, q)
}

// Generic implements [handler.EventHandler].
func (s *Selectors) Generic(ctx context.Context, e event.GenericEvent, q queue) {
	(&handler.EnqueueRequestForObject{}).Generic(ctx, e, q)
}
