package replicaset

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"flyball.dev/controllers/internal/podstate"
)

// burst is the most pods that one pass creates or deletes.
const burst = 500

// plan is what brings a set's pods to the wanted number. At most one of the two is set.
type plan struct {
	create int
	delete []*corev1.Pod
}

// planFor compares the pods that a set owns with the number it wants.
func planFor(rs *appsv1.ReplicaSet, owned []*corev1.Pod) plan {
	if rs.DeletionTimestamp != nil {
		return plan{}
	}
	active := activePods(owned)
	switch surplus := len(active) - int(wanted(rs)); {
	case surplus < 0:
		return plan{create: min(-surplus, burst)}
	case surplus > 0:
		slices.SortStableFunc(active, sooner)
		return plan{delete: active[:min(surplus, burst)]}
	}
	return plan{}
}

func wanted(rs *appsv1.ReplicaSet) int32 {
	if rs.Spec.Replicas == nil {
		return 1
	}
	return *rs.Spec.Replicas
}

func activePods(pods []*corev1.Pod) []*corev1.Pod {
	var active []*corev1.Pod
	for _, p := range pods {
		if podstate.Active(p) {
			active = append(active, p)
		}
	}
	return active
}

// sooner orders pods by how little is lost with them: those that have got nowhere first, then those
// that their annotation calls cheap, then those that became ready last, restarted most, or are young.
func sooner(a, b *corev1.Pod) int {
	return cmp.Or(
		compareBool(a.Spec.NodeName != "", b.Spec.NodeName != ""),
		cmp.Compare(phase(a), phase(b)),
		compareBool(podstate.Ready(a), podstate.Ready(b)),
		cmp.Compare(cost(a), cost(b)),
		readySince(b).Compare(readySince(a)),
		cmp.Compare(restarts(b), restarts(a)),
		b.CreationTimestamp.Compare(a.CreationTimestamp.Time),
	)
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	default:
		return 1
	}
}

func phase(p *corev1.Pod) int {
	return slices.Index([]corev1.PodPhase{corev1.PodPending, corev1.PodUnknown, corev1.PodRunning}, p.Status.Phase)
}

func cost(p *corev1.Pod) int64 {
	n, err := strconv.ParseInt(p.Annotations[corev1.PodDeletionCost], 10, 32)
	if err != nil {
		return 0
	}
	return n
}

func readySince(p *corev1.Pod) time.Time {
	if !podstate.Ready(p) {
		return time.Time{}
	}
	return podstate.Condition(p, corev1.PodReady).LastTransitionTime.Time
}

func restarts(p *corev1.Pod) (n int32) {
	for _, s := range p.Status.ContainerStatuses {
		n = max(n, s.RestartCount)
	}
	return n
}

// statusOf counts a set's pods. after is the time until another pod becomes available, or zero.
// trouble is what went wrong with the pods in this pass.
func statusOf(rs *appsv1.ReplicaSet, owned []*corev1.Pod, trouble *trouble, now time.Time) (status appsv1.ReplicaSetStatus, after time.Duration) {
	status = appsv1.ReplicaSetStatus{ObservedGeneration: rs.Generation, Conditions: conditions(rs.Status.Conditions, trouble, now)}
	template := labels.SelectorFromSet(rs.Spec.Template.Labels)
	minReady := time.Duration(rs.Spec.MinReadySeconds) * time.Second
	terminating := int32(0)
	for _, p := range owned {
		if !podstate.Active(p) {
			if !podstate.Finished(p) {
				terminating++
			}
			continue
		}
		status.Replicas++
		if template.Matches(labels.Set(p.Labels)) {
			status.FullyLabeledReplicas++
		}
		if podstate.Ready(p) {
			status.ReadyReplicas++
		}
		switch ok, left := podstate.Available(p, minReady, now); {
		case ok:
			status.AvailableReplicas++
		case left > 0 && (after == 0 || left < after):
			after = left
		}
	}
	status.TerminatingReplicas = &terminating
	return status, after
}

// trouble is a failure to create or delete pods.
type trouble struct {
	reason string
	err    error
}

// conditions adds the failure condition or takes it away.
func conditions(old []appsv1.ReplicaSetCondition, t *trouble, now time.Time) []appsv1.ReplicaSetCondition {
	var list []appsv1.ReplicaSetCondition
	var was *appsv1.ReplicaSetCondition
	for i := range old {
		if old[i].Type == appsv1.ReplicaSetReplicaFailure {
			was = &old[i]
		} else {
			list = append(list, old[i])
		}
	}
	if t == nil {
		return list
	}
	c := appsv1.ReplicaSetCondition{
		Type: appsv1.ReplicaSetReplicaFailure, Status: corev1.ConditionTrue,
		Reason: t.reason, Message: t.err.Error(), LastTransitionTime: metav1.NewTime(now),
	}
	if was != nil && was.Status == c.Status {
		c.LastTransitionTime = was.LastTransitionTime
	}
	return append(list, c)
}

// podFor makes the next pod of a set. The server gives it its name.
func podFor(rs *appsv1.ReplicaSet) *corev1.Pod {
	t := rs.Spec.Template.DeepCopy()
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			GenerateName:    rs.Name + "-",
			Namespace:       rs.Namespace,
			Labels:          t.Labels,
			Annotations:     t.Annotations,
			Finalizers:      t.Finalizers,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(rs, kind)},
		},
		Spec: t.Spec,
	}
}
