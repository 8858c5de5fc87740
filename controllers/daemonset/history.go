package daemonset

import (
	"bytes"
	"cmp"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"flyball.dev/controllers/internal/podtemplate"
)

// history is the ControllerRevisions of a DaemonSet, and the change that they need.
type history struct {
	// current is the revision of the present template.
	current *appsv1.ControllerRevision
	// create reports whether current does not exist yet. renumber reports whether it exists, but an older one has a higher
	// number; current has its new number then.
	create, renumber bool
	// duplicates are other revisions of the present template, which are to be deleted.
	duplicates []*appsv1.ControllerRevision
	// old are the revisions of other templates, the oldest first.
	old []*appsv1.ControllerRevision
}

// historyOf returns the history of a DaemonSet that has these revisions.
//
//upstream:pkg/controller/daemon.DaemonSetsController.constructHistory
//upstream:pkg/controller/daemon.Match
func historyOf(set *appsv1.DaemonSet, all []*appsv1.ControllerRevision) (history, error) {
	data, err := podtemplate.Patch(&set.Spec.Template)
	if err != nil {
		return history{}, err
	}
	var h history
	number := int64(1)
	for _, r := range slices.SortedFunc(slices.Values(all), compareRevisions) {
		switch {
		case !bytes.Equal(r.Data.Raw, data):
			h.old = append(h.old, r)
			number = max(number, r.Revision+1)
		case h.current != nil:
			h.duplicates = append(h.duplicates, h.current)
			fallthrough
		default:
			h.current = r
		}
	}
	switch {
	case h.current == nil:
		h.current, h.create = newRevision(set, data, number), true
	case h.current.Revision < number:
		h.current, h.renumber = h.current.DeepCopy(), true
		h.current.Revision = number
	}
	return h, nil
}

// compareRevisions orders revisions by their numbers, and then by age.
//
//upstream:pkg/controller/daemon.historiesByRevision
func compareRevisions(a, b *appsv1.ControllerRevision) int {
	return cmp.Or(cmp.Compare(a.Revision, b.Revision), a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
		strings.Compare(a.Name, b.Name))
}

// newRevision returns the revision of the present template, with a number.
//
//upstream:pkg/controller/daemon.DaemonSetsController.snapshot
func newRevision(set *appsv1.DaemonSet, data []byte, number int64) *appsv1.ControllerRevision {
	hash := podtemplate.Hash(&set.Spec.Template, set.Status.CollisionCount)
	labels := maps.Clone(set.Spec.Template.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[hashLabel] = hash
	return &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{
			Name: set.Name + "-" + hash, Namespace: set.Namespace, Labels: labels, Annotations: set.Annotations,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(set, kind)},
		},
		Data:     runtime.RawExtension{Raw: data},
		Revision: number,
	}
}

// beyondLimit returns the old revisions beyond the revision history limit. Revisions of existing pods count, but stay.
//
//upstream:pkg/controller/daemon.DaemonSetsController.cleanupHistory
func (h *history) beyondLimit(set *appsv1.DaemonSet, pods []*corev1.Pod) (list []*appsv1.ControllerRevision) {
	if set.Spec.RevisionHistoryLimit == nil {
		return nil
	}
	live := map[string]bool{}
	for _, pod := range pods {
		if nodeOf(pod) != "" && pod.Labels[hashLabel] != "" {
			live[pod.Labels[hashLabel]] = true
		}
	}
	surplus := len(h.old) - int(*set.Spec.RevisionHistoryLimit)
	for _, r := range h.old {
		if len(list) < surplus && !live[r.Labels[hashLabel]] {
			list = append(list, r)
		}
	}
	return list
}
