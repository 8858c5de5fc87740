package development

import (
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/ctrl/config"
)

const (
	// stormConflicts is how many conflicts of one object within stormWindow are a storm.
	stormConflicts = 10
	stormWindow    = time.Minute
)

// conflicts counts the conflicts of writes of this process by object.
type conflicts struct {
	storms *bounded[objectID, storm]
	// others are the last writers of objects that were not this process.
	others *bounded[objectID, writer]
}

// storm counts conflicts.
type storm struct {
	count int
	since time.Time
}

func newConflicts() conflicts {
	return conflicts{newBounded[objectID, storm](maxTracked), newBounded[objectID, writer](maxTracked)}
}

// conflicted warns of many conflicts of one object.
func (m *Monitor) conflicted(w write, err error) {
	s, _ := m.conflicts.storms.get(w.objectID)
	if time.Since(s.since) > stormWindow {
		s = storm{since: time.Now()}
	}
	s.count++
	m.conflicts.storms.put(w.objectID, s)
	if s.count != stormConflicts {
		return
	}
	message := "Many conflicts: the object has changed since it was read, again and again. Patch only the fields that " +
		"are yours, or apply them, and let one controller write an object"
	path := appliedField(err)
	if path == "" {
		path = "metadata.resourceVersion"
	} else {
		message = "Many conflicts: another manager owns a field that is applied. Do not apply a field that is not yours, " +
			"or apply with client.ForceOwnership"
	}
	m.warn(config.Warning{
		Check: config.CheckConflicts, GVK: w.gvk, Object: w.NamespacedName, Field: path,
		Writer: w.by.String() + ", in conflict with " + m.opponent(w), Message: message,
	})
}

// opponent returns who else writes an object.
func (m *Monitor) opponent(w write) string {
	if other, ok := m.conflicts.others.get(w.objectID); ok {
		return other.String()
	}
	obj, known := m.read(w.gvk, w.NamespacedName)
	if !known || obj == nil {
		return "an unknown writer"
	}
	var others []metav1.ManagedFieldsEntry
	for _, entry := range obj.ManagedFields {
		if !m.writes.uses(entry.Manager) {
			others = append(others, entry)
		}
	}
	if manager := newest(others); manager != "" {
		return writer{manager: manager}.String()
	}
	return "itself: it writes what it has read before its own last write, or several of its controllers write the object"
}

// appliedField returns the field of the conflict of a server-side apply, or "".
func appliedField(err error) string {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		return ""
	}
	for _, cause := range status.Status().Details.Causes {
		if cause.Type == metav1.CauseTypeFieldManagerConflict {
			return cause.Field
		}
	}
	return ""
}
