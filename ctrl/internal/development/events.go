package development

import (
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"

	"flyball.dev/ctrl/cache/cacheapi"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/internal/optional"
	"flyball.dev/internal/objectdiff"
)

// informers are the informers that are observed: of each kind one, even if the operator has it in
// several representations or versions.
type informers struct {
	mu      sync.Mutex
	current map[schema.GroupKind]*handler
}

// Observe observes the events of an informer.
func (m *Monitor) Observe(gvk schema.GroupVersionKind, informer cacheapi.Informer) {
	// Without resyncs, which change nothing.
	_, err := informer.AddEventHandlerWithResyncPeriod(&handler{monitor: m, gvk: gvk}, 0)
	if err != nil {
		m.logger.V(1).Info("An informer is not observed", "kind", gvk.GroupKind().String(), "reason", err.Error())
	}
}

// handler is the event handler for one informer.
type handler struct {
	monitor *Monitor
	gvk     schema.GroupVersionKind
	rank    int // of the representation; 0 until the first event
}

// observes reports whether the events of this informer count for the kind: the typed informer rather
// than the unstructured one, and that rather than the one with only metadata. An informer replaces
// the one before it, which was removed from the cache.
func (h *handler) observes(obj client.Object) bool {
	if h.rank == 0 {
		h.rank = rankOf(obj)
	}
	i := &h.monitor.informers
	i.mu.Lock()
	defer i.mu.Unlock()
	now := i.current[h.gvk.GroupKind()]
	if now == nil || now.rank < h.rank || now.rank == h.rank && now.gvk == h.gvk {
		i.current[h.gvk.GroupKind()] = h
	}
	return i.current[h.gvk.GroupKind()] == h
}

func rankOf(obj client.Object) int {
	switch obj.(type) {
	case *metav1.PartialObjectMetadata:
		return 1
	case *unstructured.Unstructured:
		return 2
	default:
		return 3
	}
}

func (h *handler) id(obj client.Object) objectID {
	return objectID{h.gvk.GroupKind(), client.ObjectKeyFromObject(obj)}
}

var _ optional.EachChange = (*handler)(nil)

// WantsEachChange implements optional.EachChange: two changes at once have no single writer.
func (h *handler) WantsEachChange() {}

// OnAdd implements toolscache.ResourceEventHandler.
func (h *handler) OnAdd(obj any, _ bool) { h.monitor.contained.do(func() { h.added(obj) }) }

// OnUpdate implements toolscache.ResourceEventHandler.
func (h *handler) OnUpdate(before, after any) {
	h.monitor.contained.do(func() { h.updated(before, after) })
}

// OnDelete implements toolscache.ResourceEventHandler.
func (h *handler) OnDelete(obj any) { h.monitor.contained.do(func() { h.deleted(obj) }) }

// added observes a new object. Only unfinished work of the object matters.
func (h *handler) added(obj any) {
	o, ok := obj.(client.Object)
	if !ok || !h.observes(o) || o.GetDeletionTimestamp() == nil && !lags(o) {
		return
	}
	h.monitor.later(h.monitor.progressOf(h.gvk, h.id(o), o))
}

func (h *handler) updated(before, after any) {
	a, okA := before.(client.Object)
	b, okB := after.(client.Object)
	if !okA || !okB || a.GetResourceVersion() == b.GetResourceVersion() || !h.observes(b) {
		return
	}
	id, same, progress := h.id(b), a.GetUID() == b.GetUID(), h.monitor.progressOf(h.gvk, h.id(b), b)
	now := time.Now()
	h.monitor.later(func() {
		progress()
		if !same {
			return // another object of that name
		}
		h.monitor.changed(change{objectID: id, gvk: h.gvk, before: a, after: b, delivered: now})
	})
}

func (h *handler) deleted(obj any) {
	if unknown, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
		obj = unknown.Obj
	}
	o, ok := obj.(client.Object)
	if !ok || !h.observes(o) {
		return
	}
	id, uid := h.id(o), o.GetUID()
	h.monitor.later(func() {
		if _, dropped := h.monitor.deleted.put(uid, struct{}{}); dropped {
			h.monitor.deletionsDropped = time.Now()
		}
		h.monitor.finalizers.tracked.delete(id)
		h.monitor.finalizers.dependents.delete(id)
		h.monitor.status.behind.delete(id)
		h.monitor.leaders.turns.delete(id)
	})
}

// change is an update of an object.
type change struct {
	objectID
	gvk           schema.GroupVersionKind
	before, after client.Object
	delivered     time.Time
	by            writer
	compared      bool
	differences   []objectdiff.Change // once they were needed
}

// changed evaluates an update, unless it is not certain whether this process made it.
func (m *Monitor) changed(c change) {
	by, known := m.writes.find(version{c.objectID, c.after.GetResourceVersion()}, c.delivered)
	if !known {
		return
	}
	if !by.own {
		if by.manager = managerOfChange(c.before, c.after); by.manager != "" {
			m.conflicts.others.put(c.objectID, by)
		}
		m.finalizers.shared = m.finalizers.shared || m.writes.uses(by.manager)
	}
	c.by = by
	m.checkFight(&c)
	m.checkLeaders(&c)
}
