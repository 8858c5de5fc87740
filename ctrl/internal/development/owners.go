package development

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"flyball.dev/ctrl/config"
)

// ownerGrace is how long an owner has to be absent. If the cache delivers its deletion until then,
// the reconciler has read it just before that.
const ownerGrace = 10 * time.Second

// owners are the owners that were read.
type owners struct {
	// checked are those that exist, and those that were reported or are to be read again.
	checked *bounded[ownerID, struct{}]
}

// ownerID identifies an owner, and where its dependent looks for it.
type ownerID struct {
	uid       types.UID
	namespace string // of the dependent
}

func newOwners() owners { return owners{newBounded[ownerID, struct{}](2 * maxTracked)} }

// checkOwners reads the owners of an object that this process has written.
func (m *Monitor) checkOwners(w write) {
	for _, ref := range w.references {
		if id := (ownerID{ref.UID, w.Namespace}); !m.owners.checked.has(id) && m.sets(w, ref) {
			m.checkOwner(w, ref, id)
		}
	}
}

// sets reports whether this process has set an owner reference of an object that it has written.
// Others are not its mistakes.
func (m *Monitor) sets(w write, ref metav1.OwnerReference) bool {
	managers := managersOf(w.managedFields, fieldpath.MakePathOrDie("metadata", "ownerReferences",
		fieldpath.KeyByFields("uid", string(ref.UID))))
	return len(managers) == 0 || slices.ContainsFunc(managers, m.writes.uses)
}

// checkOwner warns of an owner that stands in another namespace, and reads one that does not exist
// again later.
func (m *Monitor) checkOwner(w write, ref metav1.OwnerReference, id ownerID) {
	gvk := schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind)
	if m.mapper == nil {
		return
	}
	mapping, err := m.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		return // not certain: it may be installed just now
	}
	namespaced := mapping.Scope.Name() == meta.RESTScopeNameNamespace
	key := types.NamespacedName{Name: ref.Name}
	if namespaced {
		key.Namespace = w.Namespace
	}
	if namespaced && w.Namespace == "" {
		m.owners.checked.put(id, struct{}{})
		m.warnOwner(w, ref, fmt.Sprintf("A cluster-scoped object cannot have the owner %s, which stands in a namespace: "+
			"the garbage collector does not find it. Use a finalizer on the owner, and labels to find the object", describe(ref)))
		return
	}
	owner, known := m.read(gvk, key)
	switch {
	case !known:
	case owner != nil && owner.UID == ref.UID:
		m.owners.checked.put(id, struct{}{})
	case m.standsElsewhere(gvk, w, ref):
		m.owners.checked.put(id, struct{}{})
		m.warnOwner(w, ref, fmt.Sprintf("The owner %s stands in the namespace %s, but an owner has to be in that of its "+
			"dependent: the garbage collector deletes the object. Use a finalizer on the owner, and labels to find the object",
			describe(ref), w.request.Namespace))
	default:
		m.owners.checked.put(id, struct{}{})
		m.schedule.check(ownerGrace, func() { m.checkAbsentOwner(w, ref, gvk, key) })
	}
}

// standsElsewhere reports whether the owner is in the namespace of the reconciler's request, which is
// not the namespace of the dependent.
func (m *Monitor) standsElsewhere(gvk schema.GroupVersionKind, w write, ref metav1.OwnerReference) bool {
	if w.request.Namespace == "" || w.request.Namespace == w.Namespace || w.Namespace == "" {
		return false
	}
	owner, known := m.read(gvk, types.NamespacedName{Namespace: w.request.Namespace, Name: ref.Name})
	return known && owner != nil && owner.UID == ref.UID
}

// checkAbsentOwner warns of an owner that still does not exist, and was not deleted a moment ago.
func (m *Monitor) checkAbsentOwner(w write, ref metav1.OwnerReference, gvk schema.GroupVersionKind, key types.NamespacedName) {
	if now := time.Now(); m.deleted.has(ref.UID) || now.Sub(m.deletionsDropped) <= 2*ownerGrace ||
		m.schedule.droppedSince(now.Add(-2*ownerGrace)) {
		return // it was deleted, or that is not certain
	}
	owner, known := m.read(gvk, key)
	if !known || owner != nil && owner.UID == ref.UID {
		return
	}
	m.warnOwner(w, ref, fmt.Sprintf("The owner %s with the UID %s does not exist: the garbage collector deletes the object. "+
		"Set the owner with controllerutil.SetControllerReference, to an object that was read from the API server",
		describe(ref), ref.UID))
}

func (m *Monitor) warnOwner(w write, ref metav1.OwnerReference, message string) {
	m.warn(config.Warning{
		Check: config.CheckOwners, GVK: w.gvk, Object: w.NamespacedName,
		Field: "metadata.ownerReferences", Writer: w.by.String(), Message: message,
	})
}

func describe(ref metav1.OwnerReference) string {
	return schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind).GroupKind().String() + " " + ref.Name
}
