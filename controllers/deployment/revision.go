package deployment

import (
	"bytes"
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"flyball.dev/controllers/internal/podtemplate"
)

// These annotations are read by kubectl.
const (
	//upstream:pkg/controller/deployment/util.RevisionAnnotation
	revisionAnnotation = "deployment.kubernetes.io/revision"
	//upstream:pkg/controller/deployment/util.RevisionHistoryAnnotation
	revisionHistoryAnnotation = "deployment.kubernetes.io/revision-history"
	//upstream:pkg/controller/deployment/util.DesiredReplicasAnnotation
	desiredReplicasAnnotation = "deployment.kubernetes.io/desired-replicas"
	//upstream:pkg/controller/deployment/util.MaxReplicasAnnotation
	maxReplicasAnnotation = "deployment.kubernetes.io/max-replicas"
)

// maxRevisionHistory is the maximum length of the annotation with the revision history.
//
//upstream:pkg/controller/deployment.maxRevHistoryLengthInChars
const maxRevisionHistory = 2000

// notCopiedAnnotations are not copied from a Deployment to its ReplicaSets.
//
//upstream:pkg/controller/deployment/util.annotationsToSkip
var notCopiedAnnotations = []string{
	corev1.LastAppliedConfigAnnotation, revisionAnnotation, revisionHistoryAnnotation,
	desiredReplicasAnnotation, maxReplicasAnnotation, appsv1.DeprecatedRollbackTo,
}

// findNewAndOld returns the ReplicaSet with the current template of the Deployment, the oldest one
// if there are several, or nil, and the others, the oldest first.
//
//upstream:pkg/controller/deployment/util.FindNewReplicaSet
//upstream:pkg/controller/deployment/util.FindOldReplicaSets
func findNewAndOld(d *appsv1.Deployment,
	sets []*appsv1.ReplicaSet) (newRS *appsv1.ReplicaSet, old []*appsv1.ReplicaSet) {
	sets = slices.Clone(sets)
	slices.SortFunc(sets, compareAge)
	for _, rs := range sets {
		if newRS == nil && sameTemplate(&d.Spec.Template, &rs.Spec.Template) {
			newRS = rs
		} else {
			old = append(old, rs)
		}
	}
	return newRS, old
}

// compareAge orders ReplicaSets from the oldest to the newest.
//
//upstream:pkg/controller.ReplicaSetsByCreationTimestamp
func compareAge(a, b *appsv1.ReplicaSet) int {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
}

// compareRevision orders ReplicaSets from the lowest revision to the highest. A ReplicaSet with a revision that is not a
// number is ordered by its age.
//
//upstream:pkg/controller/deployment/util.ReplicaSetsByRevision
func compareRevision(a, b *appsv1.ReplicaSet) int {
	x, okX := revisionOf(a)
	y, okY := revisionOf(b)
	if !okX || !okY {
		return compareAge(a, b)
	}
	return cmp.Or(cmp.Compare(x, y), compareAge(a, b))
}

// sameTemplate reports whether two templates are equal but for the label pod-template-hash.
//
//upstream:pkg/controller/deployment/util.EqualIgnoreHash
func sameTemplate(a, b *corev1.PodTemplateSpec) bool {
	a, b = withoutHash(a), withoutHash(b)
	return sameEncoding(a, b) || equality.Semantic.DeepEqual(a, b)
}

// sameEncoding reports whether two templates have the same encoding. Most equal templates do, and it takes a tenth of the time of a
// comparison.
func sameEncoding(a, b *corev1.PodTemplateSpec) bool {
	if a.Size() != b.Size() {
		return false
	}
	x, errX := a.Marshal()
	y, errY := b.Marshal()
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

// withoutHash returns a template without the label pod-template-hash.
func withoutHash(t *corev1.PodTemplateSpec) *corev1.PodTemplateSpec {
	if _, ok := t.Labels[appsv1.DefaultDeploymentUniqueLabelKey]; !ok {
		return t
	}
	c := *t
	c.Labels = maps.Clone(t.Labels)
	delete(c.Labels, appsv1.DefaultDeploymentUniqueLabelKey)
	return &c
}

// replicaSetName returns the name of the ReplicaSet for a hash. A name of a Deployment that is too long is
// truncated.
//
//upstream:pkg/controller/deployment.generateReplicaSetName
func replicaSetName(deployment, hash string) string {
	const separator = "-"
	longest := validation.DNS1123SubdomainMaxLength - len(separator) - len(hash)
	return deployment[:min(len(deployment), longest)] + separator + hash
}

// newReplicaSet returns the ReplicaSet for the current template of a Deployment.
//
//upstream:pkg/controller/deployment.DeploymentController.getNewReplicaSet
func newReplicaSet(d *appsv1.Deployment, old []*appsv1.ReplicaSet) *appsv1.ReplicaSet {
	hash := podtemplate.Hash(&d.Spec.Template, d.Status.CollisionCount)
	template := d.Spec.Template.DeepCopy()
	if template.Labels == nil {
		template.Labels = map[string]string{}
	}
	template.Labels[appsv1.DefaultDeploymentUniqueLabelKey] = hash
	selector := d.Spec.Selector.DeepCopy()
	if selector.MatchLabels == nil {
		selector.MatchLabels = map[string]string{}
	}
	selector.MatchLabels[appsv1.DefaultDeploymentUniqueLabelKey] = hash
	replicas := newReplicaSetReplicas(d, old)
	rs := &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{
			Name:            replicaSetName(d.Name, hash),
			Namespace:       d.Namespace,
			Labels:          template.Labels,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(d, kind)},
		},
		Spec: appsv1.ReplicaSetSpec{
			Replicas:        &replicas,
			MinReadySeconds: d.Spec.MinReadySeconds,
			Selector:        selector,
			Template:        *template,
		},
	}
	setNewReplicaSetAnnotations(d, rs, nextRevision(old))
	setReplicasAnnotations(d, rs)
	return rs
}

// setNewReplicaSetAnnotations sets the annotations of the Deployment and the revision on the new
// ReplicaSet, and appends its earlier revision to its revision history. It reports whether the ReplicaSet has to be
// updated. If the earlier revision is not a number, the annotations of the Deployment are no reason for an update.
//
//upstream:pkg/controller/deployment/util.SetNewReplicaSetAnnotations
func setNewReplicaSetAnnotations(d *appsv1.Deployment, rs *appsv1.ReplicaSet, revision int64) bool {
	before := maps.Clone(rs.Annotations)
	if rs.Annotations == nil {
		rs.Annotations = map[string]string{}
	}
	for k, v := range d.Annotations {
		if !slices.Contains(notCopiedAnnotations, k) {
			rs.Annotations[k] = v
		}
	}
	earlier, oldRevision := rs.Annotations[revisionAnnotation], int64(0)
	if earlier != "" {
		var err error
		if oldRevision, err = strconv.ParseInt(earlier, 10, 64); err != nil {
			return false
		}
	}
	if oldRevision < revision {
		if earlier != "" {
			rs.Annotations[revisionHistoryAnnotation] = appendRevision(rs.Annotations[revisionHistoryAnnotation], earlier)
		}
		rs.Annotations[revisionAnnotation] = strconv.FormatInt(revision, 10)
	}
	return !maps.Equal(before, rs.Annotations)
}

// appendRevision appends a revision to a revision history. The oldest revisions are dropped if the history
// becomes too long.
//
//upstream:pkg/controller/deployment/util.SetNewReplicaSetAnnotations
func appendRevision(history, revision string) string {
	if history == "" {
		return revision
	}
	for history += "," + revision; len(history) > maxRevisionHistory; {
		_, history, _ = strings.Cut(history, ",")
	}
	return history
}

// setReplicasAnnotations sets on a ReplicaSet how many replicas the whole Deployment should have,
// and may have at most. A ReplicaSet with another number was not scaled since the Deployment was.
//
//upstream:pkg/controller/deployment/util.SetReplicasAnnotations
func setReplicasAnnotations(d *appsv1.Deployment, rs *appsv1.ReplicaSet) {
	if rs.Annotations == nil {
		rs.Annotations = map[string]string{}
	}
	rs.Annotations[desiredReplicasAnnotation] = strconv.Itoa(int(desired(d)))
	rs.Annotations[maxReplicasAnnotation] = strconv.Itoa(int(desired(d) + maxSurge(d)))
}

// isScalingEvent reports whether the Deployment was scaled since the ReplicaSet was.
//
//upstream:pkg/controller/deployment.DeploymentController.isScalingEvent
func isScalingEvent(d *appsv1.Deployment, rs *appsv1.ReplicaSet) bool {
	annotated, ok := annotatedReplicas(rs, desiredReplicasAnnotation)
	return ok && annotated != desired(d)
}

// annotatedReplicas returns the number in an annotation of a ReplicaSet. ok is whether the annotation has
// one that is not negative.
//
//upstream:pkg/controller/deployment/util.getNonNegativeInt32FromAnnotation
func annotatedReplicas(rs *appsv1.ReplicaSet, key string) (n int32, ok bool) {
	v, err := strconv.ParseUint(rs.Annotations[key], 10, 31)
	return int32(v), err == nil
}

// revisionOf returns the revision of a ReplicaSet, 0 if it has none. ok is false if the revision is not a number.
//
//upstream:pkg/controller/deployment/util.Revision
func revisionOf(rs *appsv1.ReplicaSet) (n int64, ok bool) {
	text, found := rs.Annotations[revisionAnnotation]
	if !found {
		return 0, true
	}
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil
}

// nextRevision returns the revision of the new ReplicaSet.
//
//upstream:pkg/controller/deployment/util.MaxRevision
func nextRevision(old []*appsv1.ReplicaSet) int64 {
	highest := int64(0)
	for _, rs := range old {
		if n, ok := revisionOf(rs); ok {
			highest = max(highest, n)
		}
	}
	return highest + 1
}
