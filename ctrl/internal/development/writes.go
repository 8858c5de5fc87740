package development

import (
	"cmp"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"flyball.dev/ctrl/config"
)

const (
	maxWrites = 4096
	// unknownTime is how long it stays unknown who wrote an object after a write of this process
	// with an unknown result.
	unknownTime = time.Minute
	// maxLag is how long after a write its event is delivered, at most. If one is later, its writer may
	// have been dropped.
	maxLag = 10 * time.Second
)

// writer is who wrote an object.
type writer struct {
	// own is set for writes by the manager's client. Then controller is the controller that made the
	// write in a reconcile, if any.
	own        bool
	controller string
	manager    string // field manager; empty if the managed fields do not show it
}

func (w writer) String() string {
	switch {
	case w.own && w.controller != "":
		return fmt.Sprintf("controller %q (field manager %q)", w.controller, w.manager)
	case w.own:
		return fmt.Sprintf("this process (field manager %q)", w.manager)
	case w.manager == "":
		return "an unknown writer"
	default:
		return fmt.Sprintf("field manager %q", w.manager)
	}
}

// writes are the recent writes of the manager's client. It is safe for concurrent use.
type writes struct {
	defaultManager string

	mu       sync.Mutex
	recent   *bounded[version, recentWrite]
	dropped  time.Time // when the latest of the writes was made that recent has dropped
	inFlight map[objectID]int
	unknown  *bounded[objectID, time.Time] // when the result of a write became unknown
	managers *bounded[string, struct{}]    // the field managers of this process
}

// recentWrite is a write of this process.
type recentWrite struct {
	by writer
	at time.Time
}

// version is the state of an object after a write.
type version struct {
	objectID
	resourceVersion string
}

func newWrites(defaultManager string) writes {
	return writes{
		defaultManager: defaultManager,
		recent:         newBounded[version, recentWrite](maxWrites),
		inFlight:       map[objectID]int{},
		unknown:        newBounded[objectID, time.Time](maxTracked),
		managers:       newBounded[string, struct{}](64),
	}
}

func (w *writes) begin(id objectID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.inFlight[id]++
}

// end records the end of a write. A write without a result has no resource version.
func (w *writes) end(id objectID, written version, by writer) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.inFlight[id]--; w.inFlight[id] == 0 {
		delete(w.inFlight, id)
	}
	if written.resourceVersion != "" {
		if oldest, dropped := w.recent.put(written, recentWrite{by, time.Now()}); dropped {
			w.dropped = oldest.at
		}
		w.managers.put(by.manager, struct{}{})
	}
}

// lost records that the result of a write is not known.
func (w *writes) lost(id objectID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.unknown.put(id, time.Now())
}

// find returns who of this process wrote a version; delivered is the time of its event. Known is
// false if it may have been this process, but that is not certain.
func (w *writes) find(v version, delivered time.Time) (by writer, known bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if recent, ok := w.recent.get(v); ok {
		return recent.by, true
	}
	since, lost := w.unknown.get(v.objectID)
	dropped := !w.dropped.IsZero() && delivered.Sub(w.dropped) <= maxLag
	return writer{}, w.inFlight[v.objectID] == 0 && !dropped && !(lost && time.Since(since) < unknownTime)
}

// uses reports whether this process writes as a field manager.
func (w *writes) uses(manager string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return manager != "" && (manager == w.defaultManager || w.managers.has(manager))
}

// write is a write that succeeded.
type write struct {
	objectID
	gvk         schema.GroupVersionKind
	subResource string
	by          writer
	request     types.NamespacedName // of the reconcile in which it was made
	// Of the response; the references and the managed fields only if there are owners, and the object
	// itself was written.
	uid           types.UID
	references    []metav1.OwnerReference
	managedFields []metav1.ManagedFieldsEntry
}

// wrote evaluates a write that succeeded.
func (m *Monitor) wrote(w write) {
	if w.subResource == "status" && w.by.controller != "" {
		m.status.writers.put(statusWriter{w.by.controller, w.uid}, struct{}{})
		m.leaders.wrote(w.objectID)
	}
	m.finalizers.written.put(w.uid, struct{}{})
	m.checkOwners(w)
	m.checkAdoption(w)
}

// wroteWithoutLease reports a write by a leader-only controller after the lease was lost.
func (m *Monitor) wroteWithoutLease(w write) {
	m.warn(config.Warning{
		Check: config.CheckTwoLeaders, GVK: w.gvk, Object: w.NamespacedName,
		Field: cmp.Or(w.subResource, "the object"), Writer: w.by.String(),
		Message: "The lease was lost, so another replica leads, but this one still writes. " +
			"Exit when the manager's Start returns an error, and pass the context of Reconcile to every request",
	})
}
