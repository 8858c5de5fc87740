package development

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"

	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/config"
)

const (
	// finalizerGrace is how long an object may be terminating. As long as its reconciler fails or is to
	// be called again, that begins anew.
	finalizerGrace = 2 * time.Minute
	// unreconciledGrace is the same for an object without a reconcile of that name: one may still be
	// running, or the request of its owner handles it.
	unreconciledGrace = 10 * time.Minute
)

// finalizers are the objects that are terminating.
type finalizers struct {
	tracked *bounded[objectID, termination]
	// dependents are the objects that are being deleted, with or without finalizers, and their owners.
	dependents *bounded[objectID, []types.UID]
	// written are the objects that this process has written. Shared is whether there are others that
	// write by its field managers: then it is theirs to handle an object that this one does not write.
	written *bounded[types.UID, struct{}]
	shared  bool
}

// termination is an object that waits for its finalizers.
type termination struct {
	uid   types.UID
	since time.Time
	// reconciled is set if a reconcile of a request with its name has ended since, and busy if the last
	// one failed or is to be repeated.
	reconciled, busy bool
}

func newFinalizers() finalizers {
	return finalizers{
		tracked:    newBounded[objectID, termination](maxTracked),
		dependents: newBounded[objectID, []types.UID](maxTracked),
		written:    newBounded[types.UID, struct{}](maxTracked),
	}
}

// ownersOfDeleted returns the owners of an object that is being deleted.
func ownersOfDeleted(obj client.Object) (owners []types.UID) {
	if obj.GetDeletionTimestamp() != nil {
		for _, ref := range obj.GetOwnerReferences() {
			owners = append(owners, ref.UID)
		}
	}
	return owners
}

// trackDependent records that an object is being deleted, or is not.
func (f *finalizers) trackDependent(id objectID, owners []types.UID) {
	if len(owners) > 0 {
		f.dependents.put(id, owners)
	} else {
		f.dependents.delete(id)
	}
}

// waits reports whether a dependent of an object is still being deleted: the event of its end brings
// the next reconcile.
func (f *finalizers) waits(uid types.UID) bool {
	for _, owners := range f.dependents.entries {
		if slices.Contains(owners, uid) {
			return true
		}
	}
	return false
}

func terminating(obj client.Object) bool {
	return obj.GetDeletionTimestamp() != nil && len(obj.GetFinalizers()) > 0
}

// reconciled records the outcome of a reconcile.
func (f *finalizers) reconciled(request types.NamespacedName, done bool) {
	for id, t := range f.tracked.entries {
		if id.NamespacedName == request {
			t.reconciled, t.busy = true, !done
			f.tracked.put(id, t)
		}
	}
}

// trackFinalizers begins to track an object that is terminating.
func (m *Monitor) trackFinalizers(gvk schema.GroupVersionKind, id objectID, uid types.UID) {
	if t, ok := m.finalizers.tracked.get(id); ok && t.uid == uid {
		return
	}
	m.finalizers.tracked.put(id, termination{uid: uid, since: time.Now()})
	m.schedule.check(finalizerGrace, func() { m.checkFinalizers(gvk, id, uid) })
}

// inProgress reports whether the cleanup of an object is in progress, or that is not certain: its
// reconcile is running or planned, it waits for a dependent, or another replica leads.
func (m *Monitor) inProgress(id objectID, t termination) bool {
	since := t.since
	if leads := time.Unix(0, m.leads.Load()); leads.After(since) {
		since = leads
	}
	return t.busy || !t.reconciled && time.Since(since) < unreconciledGrace || m.standby.Load() ||
		m.running.has(id.NamespacedName) || m.finalizers.waits(t.uid) ||
		m.schedule.droppedSince(time.Now().Add(-finalizerGrace))
}

// checkFinalizers warns of the finalizers that nobody removes.
func (m *Monitor) checkFinalizers(gvk schema.GroupVersionKind, id objectID, uid types.UID) {
	t, ok := m.finalizers.tracked.get(id)
	if !ok || t.uid != uid {
		return
	}
	if m.inProgress(id, t) {
		m.schedule.check(finalizerGrace, func() { m.checkFinalizers(gvk, id, uid) })
		return
	}
	obj, known := m.read(gvk, id.NamespacedName)
	if !known || obj == nil || obj.UID != uid || obj.DeletionTimestamp == nil {
		return
	}
	for _, finalizer := range obj.Finalizers {
		m.checkFinalizer(gvk, id, obj, finalizer)
	}
}

// checkFinalizer warns of a finalizer that this process has added, or nobody who is known to remove
// it. Those of Kubernetes, and of other operators, are theirs.
func (m *Monitor) checkFinalizer(gvk schema.GroupVersionKind, id objectID, obj *metav1.PartialObjectMetadata, finalizer string) {
	domain, _, qualified := strings.Cut(finalizer, "/")
	if !qualified || domain == "kubernetes.io" || strings.HasSuffix(domain, ".kubernetes.io") {
		return
	}
	w := config.Warning{
		Check: config.CheckFinalizers, GVK: gvk, Object: id.NamespacedName,
		Field: fmt.Sprintf("metadata.finalizers[%s]", finalizer),
	}
	element := fieldpath.MakePathOrDie("metadata", "finalizers", value.NewValueInterface(finalizer))
	managers := managersOf(obj.ManagedFields, element)
	switch {
	case len(managers) == 0:
		w.Writer = "an unknown writer"
	case strings.HasPrefix(managers[0], "kubectl"):
		w.Writer = writer{manager: managers[0]}.String() + ", which does not remove it"
	case m.finalizers.shared && !m.finalizers.written.has(obj.UID):
		return // of another shard
	case m.writes.uses(managers[0]):
		w.Writer = "this operator, " + writer{manager: managers[0]}.String()
	default:
		return
	}
	w.Message = "The object has been terminating for minutes: nobody removes the finalizer, and no reconcile of it is planned. " +
		"Handle the deletion before everything else in Reconcile, and remove the finalizer when the cleanup has succeeded"
	m.warn(w)
}
