package deployment

import (
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
	"k8s.io/apimachinery/pkg/util/rand"
)

// These annotations are read by kubectl.
const (
	revisionAnnotation        = "deployment.kubernetes.io/revision"
	revisionHistoryAnnotation = "deployment.kubernetes.io/revision-history"
	desiredAnnotation         = "deployment.kubernetes.io/desired-replicas"
	maximumAnnotation         = "deployment.kubernetes.io/max-replicas"
)

// ownAnnotations are not copied from a deployment to its sets.
var ownAnnotations = []string{
	corev1.LastAppliedConfigAnnotation, revisionAnnotation, revisionHistoryAnnotation,
	desiredAnnotation, maximumAnnotation, appsv1.DeprecatedRollbackTo,
}

// split finds the set that has the deployment's present template, the oldest if there are several.
// old are all others, the oldest first.
func split(d *appsv1.Deployment, sets []*appsv1.ReplicaSet) (current *appsv1.ReplicaSet, old []*appsv1.ReplicaSet) {
	sets = slices.Clone(sets)
	slices.SortFunc(sets, func(a, b *appsv1.ReplicaSet) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
	})
	for _, rs := range sets {
		if current == nil && sameTemplate(&d.Spec.Template, &rs.Spec.Template) {
			current = rs
		} else {
			old = append(old, rs)
		}
	}
	return current, old
}

// sameTemplate compares two templates, but for the label that tells the sets of a deployment apart.
func sameTemplate(a, b *corev1.PodTemplateSpec) bool {
	return equality.Semantic.DeepEqual(withoutHash(a), withoutHash(b))
}

func withoutHash(t *corev1.PodTemplateSpec) *corev1.PodTemplateSpec {
	if _, ok := t.Labels[appsv1.DefaultDeploymentUniqueLabelKey]; !ok {
		return t
	}
	c := *t
	c.Labels = maps.Clone(t.Labels)
	delete(c.Labels, appsv1.DefaultDeploymentUniqueLabelKey)
	return &c
}

// hashOf is a short name for a template. After a collision it is another one.
func hashOf(t *corev1.PodTemplateSpec, collisions *int32) (string, error) {
	data, err := json.Marshal(t)
	if err != nil {
		return "", err
	}
	h := fnv.New32a()
	h.Write(data)
	if collisions != nil {
		h.Write([]byte(strconv.Itoa(int(*collisions))))
	}
	return rand.SafeEncodeString(strconv.FormatUint(uint64(h.Sum32()), 10)), nil
}

// newSet makes the set for the deployment's present template.
func newSet(d *appsv1.Deployment, old []*appsv1.ReplicaSet) (*appsv1.ReplicaSet, error) {
	hash, err := hashOf(&d.Spec.Template, d.Status.CollisionCount)
	if err != nil {
		return nil, err
	}
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
	replicas := firstReplicas(d, old)
	rs := &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{
			Name:            d.Name + "-" + hash,
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
	annotate(d, rs, nextRevision(old))
	noteReplicas(d, rs)
	return rs, nil
}

// annotate gives a current set the deployment's annotations and its revision; a revision that it had
// before goes to its history.
func annotate(d *appsv1.Deployment, rs *appsv1.ReplicaSet, revision int64) {
	if rs.Annotations == nil {
		rs.Annotations = map[string]string{}
	}
	for k, v := range d.Annotations {
		if !slices.Contains(ownAnnotations, k) {
			rs.Annotations[k] = v
		}
	}
	had := revisionOf(rs)
	if had >= revision {
		return
	}
	if had > 0 {
		history := strconv.FormatInt(had, 10)
		if before := rs.Annotations[revisionHistoryAnnotation]; before != "" {
			history = before + "," + history
		}
		rs.Annotations[revisionHistoryAnnotation] = history
	}
	rs.Annotations[revisionAnnotation] = strconv.FormatInt(revision, 10)
}

// noteReplicas writes on a set how many replicas the whole deployment wants and may have. A set
// where this differs has not been scaled since the deployment was.
func noteReplicas(d *appsv1.Deployment, rs *appsv1.ReplicaSet) {
	if rs.Annotations == nil {
		rs.Annotations = map[string]string{}
	}
	rs.Annotations[desiredAnnotation] = strconv.Itoa(int(desired(d)))
	rs.Annotations[maximumAnnotation] = strconv.Itoa(int(desired(d) + maxSurge(d)))
}

// rescaled reports whether the deployment was scaled since the set was.
func rescaled(d *appsv1.Deployment, rs *appsv1.ReplicaSet) bool {
	noted, err := strconv.Atoi(rs.Annotations[desiredAnnotation])
	return err == nil && int32(noted) != desired(d)
}

func revisionOf(o metav1.Object) int64 {
	n, err := strconv.ParseInt(o.GetAnnotations()[revisionAnnotation], 10, 64)
	if err != nil {
		return 0
	}
	return n
}

func nextRevision(old []*appsv1.ReplicaSet) int64 {
	highest := int64(0)
	for _, rs := range old {
		highest = max(highest, revisionOf(rs))
	}
	return highest + 1
}
