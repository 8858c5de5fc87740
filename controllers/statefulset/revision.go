package statefulset

import (
	"bytes"
	"cmp"
	"encoding/json"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/utils/ptr"

	"flyball.dev/controllers/internal/podtemplate"
)

// hashLabel is the label of a ControllerRevision with the hash of its data.
//
//upstream:pkg/controller/history.ControllerRevisionHashLabel
const hashLabel = "controller.kubernetes.io/hash"

// maxRevisionPrefix is the length to which the name of a StatefulSet is truncated in the name of a
// revision.
//
//upstream:pkg/controller/history.ControllerRevisionName
const maxRevisionPrefix = 223

// history is the ControllerRevisions of a StatefulSet, and the change that they need.
type history struct {
	// all are the existing ones, the oldest first.
	all []*appsv1.ControllerRevision
	// current is the revision of the last complete rollout, and update is the revision of the present template.
	current, update *appsv1.ControllerRevision
	// create reports whether update does not exist yet. renumber reports whether it exists but was not the latest
	// revision; it has its new number then.
	create, renumber bool
}

// historyOf returns the history of a StatefulSet that has these revisions.
//
//upstream:pkg/controller/statefulset.defaultStatefulSetControl.getStatefulSetRevisions
func historyOf(set *appsv1.StatefulSet, all []*appsv1.ControllerRevision) (history, error) {
	h := history{all: slices.SortedFunc(slices.Values(all), compareRevisions)}
	data, err := podtemplate.Patch(&set.Spec.Template)
	if err != nil {
		return history{}, err
	}
	var latest *appsv1.ControllerRevision
	number := int64(1)
	if n := len(h.all); n > 0 {
		latest = h.all[n-1]
		number = latest.Revision + 1
	}
	for _, r := range h.all {
		if bytes.Equal(r.Data.Raw, data) {
			h.update = r
		}
	}
	switch {
	case h.update != nil && (h.update == latest || bytes.Equal(latest.Data.Raw, data)):
	case h.update != nil:
		h.update, h.renumber = h.update.DeepCopy(), true
		h.update.Revision = number
	case latest != nil && restores(set, latest):
		h.update = latest
	default:
		h.update, h.create = newRevision(set, data, number), true
	}
	h.current = h.update
	for _, r := range h.all {
		if r.Name == set.Status.CurrentRevision && r.Name != h.update.Name {
			h.current = r
		}
	}
	return h, nil
}

// compareRevisions orders revisions by their numbers, and then by age.
//
//upstream:pkg/controller/history.byRevision
func compareRevisions(a, b *appsv1.ControllerRevision) int {
	return cmp.Or(cmp.Compare(a.Revision, b.Revision), a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
		strings.Compare(a.Name, b.Name))
}

// beyondLimit returns the revisions beyond the revision history limit. Revisions in use do not count.
//
//upstream:pkg/controller/statefulset.defaultStatefulSetControl.truncateHistory
func (h *history) beyondLimit(set *appsv1.StatefulSet, pods []*corev1.Pod) []*appsv1.ControllerRevision {
	if set.Spec.RevisionHistoryLimit == nil {
		return nil
	}
	live := map[string]bool{h.current.Name: true, h.update.Name: true}
	for _, pod := range pods {
		live[revisionOf(pod)] = true
	}
	var old []*appsv1.ControllerRevision
	for _, r := range h.all {
		if !live[r.Name] {
			old = append(old, r)
		}
	}
	return old[:max(0, len(old)-int(*set.Spec.RevisionHistoryLimit))]
}

// templateOf returns the template that a revision restores in a StatefulSet.
//
//upstream:pkg/controller/statefulset.ApplyRevision
func templateOf(set *appsv1.StatefulSet, r *appsv1.ControllerRevision) (*corev1.PodTemplateSpec, error) {
	original, err := json.Marshal(set)
	if err != nil {
		return nil, err
	}
	restored, err := strategicpatch.StrategicMergePatch(original, r.Data.Raw, &appsv1.StatefulSet{})
	if err != nil {
		return nil, err
	}
	result := &appsv1.StatefulSet{}
	if err := json.Unmarshal(restored, result); err != nil {
		return nil, err
	}
	return &result.Spec.Template, nil
}

// restores reports whether a revision restores the present template, even if its encoding differs. It prevents a rollout
// that would change nothing.
//
//upstream:pkg/controller/statefulset.setMatchesLatestExistingRevision
func restores(set *appsv1.StatefulSet, r *appsv1.ControllerRevision) bool {
	t, err := templateOf(set, r)
	return err == nil && equality.Semantic.DeepEqual(*t, set.Spec.Template)
}

// newRevision returns the revision of the present template, with a number.
//
//upstream:pkg/controller/statefulset.newRevision
//upstream:pkg/controller/history.NewControllerRevision
func newRevision(set *appsv1.StatefulSet, data []byte, number int64) *appsv1.ControllerRevision {
	r := &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:       set.Namespace,
			Labels:          maps.Clone(set.Spec.Template.Labels),
			Annotations:     maps.Clone(set.Annotations),
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(set, kind)},
		},
		Data:     runtime.RawExtension{Raw: data},
		Revision: number,
	}
	nameRevision(set, r, collisions(set))
	return r
}

// nameRevision sets the name of a new revision and the label with its hash, which depends on the
// number of collisions.
//
//upstream:pkg/controller/history.HashControllerRevision
//upstream:pkg/controller/history.ControllerRevisionName
func nameRevision(set *appsv1.StatefulSet, r *appsv1.ControllerRevision, collisions int32) {
	h := fnv.New32()
	h.Write(r.Data.Raw)
	h.Write(strconv.AppendInt(nil, int64(collisions), 10))
	hash := rand.SafeEncodeString(strconv.FormatUint(uint64(h.Sum32()), 10))
	r.Name = set.Name[:min(len(set.Name), maxRevisionPrefix)] + "-" + hash
	if r.Labels == nil {
		r.Labels = map[string]string{}
	}
	r.Labels[hashLabel] = hash
}

// collisions returns the collision count in the status.
func collisions(set *appsv1.StatefulSet) int32 { return ptr.Deref(set.Status.CollisionCount, 0) }
