package development

import (
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/config"
)

// statusGrace is how long the status may be behind its generation after a successful reconcile.
const statusGrace = 30 * time.Second

// statuses are the objects with a status behind their generation.
type statuses struct {
	behind *bounded[objectID, lag]
	// writers are the controllers that have written the status of an object in reconciles. An object
	// that a controller leaves alone, such as one of another class, has none.
	writers *bounded[statusWriter, struct{}]
}

// lag is a status that is behind its generation.
type lag struct {
	uid        types.UID
	generation int64
	seen       time.Time
	// done has the controllers that have reconciled the name since then: whether the last reconcile
	// was successful and nothing is planned.
	done map[string]bool
}

// statusWriter is a controller and an object.
type statusWriter struct {
	controller string
	uid        types.UID
}

// pending reports whether a controller is still to reconcile an object with a status that is behind:
// one that has failed, or one that writes the status of the object and has not been called yet.
func (s *statuses) pending(l lag) bool {
	for _, done := range l.done {
		if !done {
			return true
		}
	}
	for w := range s.writers.entries {
		if w.uid == l.uid && !l.done[w.controller] {
			return true
		}
	}
	return false
}

func newStatuses() statuses {
	return statuses{newBounded[objectID, lag](maxTracked), newBounded[statusWriter, struct{}](maxTracked)}
}

// progressOf returns a function that records the unfinished work of an object that was just delivered.
func (m *Monitor) progressOf(gvk schema.GroupVersionKind, id objectID, obj client.Object) func() {
	now, generation, uid := time.Now(), obj.GetGeneration(), obj.GetUID()
	isTerminating, isBehind, deletedOwners := terminating(obj), lags(obj), ownersOfDeleted(obj)
	return func() {
		m.finalizers.trackDependent(id, deletedOwners)
		if isTerminating {
			m.trackFinalizers(gvk, id, uid)
		}
		l, ok := m.status.behind.get(id)
		switch {
		case !isBehind:
			m.status.behind.delete(id)
		case !ok || l.generation != generation || l.uid != uid:
			m.status.behind.put(id, lag{uid: uid, generation: generation, seen: now, done: map[string]bool{}})
		}
	}
}

// lags reports whether the type of an object has status.observedGeneration, and it is behind.
func lags(obj client.Object) bool {
	observed, ok := observedGeneration(obj)
	return ok && obj.GetDeletionTimestamp() == nil && observed < obj.GetGeneration()
}

// reconciledStatus evaluates the end of a reconcile of an object with a status that is behind.
func (m *Monitor) reconciledStatus(controller string, request types.NamespacedName, began time.Time, done bool) {
	for id, l := range m.status.behind.entries {
		if id.NamespacedName != request {
			continue
		}
		switch writes := m.status.writers.has(statusWriter{controller, l.uid}); {
		case !done:
			l.done[controller] = false
		case !writes:
			delete(l.done, controller)
		case !began.Before(l.seen) && !l.done[controller]:
			l.done[controller] = true
			m.schedule.check(statusGrace, func() { m.checkStatus(controller, id, l.generation) })
		}
	}
}

// checkStatus warns of a status that is still behind, unless it is still to be written.
func (m *Monitor) checkStatus(controller string, id objectID, generation int64) {
	l, ok := m.status.behind.get(id)
	if !ok || l.generation != generation || m.status.pending(l) {
		return
	}
	if m.running.has(id.NamespacedName) {
		m.schedule.check(statusGrace, func() { m.checkStatus(controller, id, generation) })
		return
	}
	gvk, ok := m.informers.version(id.GroupKind)
	if !ok {
		return
	}
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(gvk)
	if exists, known := m.readInto(gvk, id.NamespacedName, obj); !known || !exists ||
		obj.GetUID() != l.uid || obj.GetGeneration() != generation || isPaused(obj) || m.othersObserve(obj) {
		return
	}
	observed, found, _ := unstructured.NestedInt64(obj.Object, "status", "observedGeneration")
	if observed >= generation {
		return
	}
	message := "status.observedGeneration is behind metadata.generation, although the reconcile of this generation has " +
		"succeeded: nobody can tell whether the status is about the present spec. "
	if !found {
		message = "The status has no observedGeneration, although its type has the field: nobody can tell whether the status " +
			"is about the present spec. "
	}
	m.warn(config.Warning{
		Check: config.CheckStatus, GVK: gvk, Object: id.NamespacedName,
		Field: "status.observedGeneration", Writer: writer{own: true, controller: controller, manager: m.writes.defaultManager}.String(),
		Message: message + "Set it to the generation of the object that was reconciled whenever the status is written",
	})
}

// othersObserve reports whether it is not for this process to set observedGeneration: somebody else
// has set it, or, as long as nobody has, writes other fields of the status.
func (m *Monitor) othersObserve(obj *unstructured.Unstructured) bool {
	entries := obj.GetManagedFields()
	managers := managersOf(entries, fieldpath.MakePathOrDie("status", "observedGeneration"))
	if len(managers) == 0 {
		managers = managersOf(entries, fieldpath.MakePathOrDie("status"))
		return slices.ContainsFunc(managers, func(manager string) bool { return !m.writes.uses(manager) })
	}
	return !slices.ContainsFunc(managers, m.writes.uses)
}

// isPaused reports whether an object says that its controller is to leave it alone, as it is common.
func isPaused(obj *unstructured.Unstructured) bool {
	for _, field := range []string{"paused", "suspend", "suspended"} {
		if is, _, _ := unstructured.NestedBool(obj.Object, "spec", field); is {
			return true
		}
	}
	for key := range obj.GetAnnotations() {
		if strings.HasSuffix(key, "/paused") || strings.HasSuffix(key, "/suspended") {
			return true
		}
	}
	return false
}

// version returns the version of a kind that is observed.
func (i *informers) version(kind schema.GroupKind) (schema.GroupVersionKind, bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	h := i.current[kind]
	if h == nil {
		return schema.GroupVersionKind{}, false
	}
	return h.gvk, true
}

// observedGeneration returns status.observedGeneration. It returns false if the type of the object
// does not have the field; of an unstructured object, if it is not set.
func observedGeneration(obj client.Object) (int64, bool) {
	if u, ok := obj.(*unstructured.Unstructured); ok {
		n, found, err := unstructured.NestedInt64(u.Object, "status", "observedGeneration")
		return n, found && err == nil
	}
	v := reflect.ValueOf(obj)
	if v.Kind() != reflect.Pointer || v.IsNil() || v.Elem().Kind() != reflect.Struct {
		return 0, false
	}
	index, ok := observedGenerationField(v.Elem().Type())
	if !ok {
		return 0, false
	}
	status := v.Elem().FieldByIndex(index[:1])
	if status.Kind() == reflect.Pointer {
		if status.IsNil() {
			return 0, true
		}
		status = status.Elem()
	}
	observed, err := status.FieldByIndexErr(index[1:])
	if err != nil {
		return 0, true // it is in an embedded struct that is not set
	}
	return observed.Int(), true
}

// fieldIndices are the indices of the fields status and observedGeneration by type: nil if it does
// not have them.
var fieldIndices sync.Map // reflect.Type → []int

func observedGenerationField(t reflect.Type) (index []int, ok bool) {
	if known, ok := fieldIndices.Load(t); ok {
		return known.([]int), known.([]int) != nil
	}
	if status, ok := t.FieldByName("Status"); ok && len(status.Index) == 1 {
		inner := status.Type
		if inner.Kind() == reflect.Pointer {
			inner = inner.Elem()
		}
		if inner.Kind() == reflect.Struct {
			if f, ok := inner.FieldByName("ObservedGeneration"); ok && f.Type.Kind() == reflect.Int64 {
				index = append([]int{status.Index[0]}, f.Index...)
			}
		}
	}
	fieldIndices.Store(t, index)
	return index, index != nil
}
