package replicaset

import (
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"

	"flyball.dev/controllers/internal/podstate"
)

// burstReplicas is the maximum number of pods that one reconcile creates or deletes.
//
//upstream:pkg/controller/replicaset.BurstReplicas
const burstReplicas = 500

// diff is the pods to be created or deleted. At most one of the two is set.
type diff struct {
	create int
	delete []*corev1.Pod
}

// replicaDiff compares the pods that a ReplicaSet owns with the replicas that it should have. related are the pods that
// its siblings, the ReplicaSets with the same owner, select. Of pods that are otherwise equal, the first to be deleted is
// on the node with the most related pods.
//
//upstream:pkg/controller/replicaset.ReplicaSetController.manageReplicas
//upstream:pkg/controller/replicaset.getPodsToDelete
//upstream:pkg/controller/replicaset.getPodsRankedByRelatedPodsOnSameNode
func replicaDiff(rs *appsv1.ReplicaSet, owned, related []*corev1.Pod, now time.Time) diff {
	if rs.DeletionTimestamp != nil {
		return diff{}
	}
	active := podstate.FilterActive(owned)
	switch surplus := len(active) - int(desired(rs)); {
	case surplus < 0:
		return diff{create: min(-surplus, burstReplicas)}
	case surplus > 0:
		onNode := map[string]int{}
		for _, p := range podstate.FilterActive(related) {
			onNode[p.Spec.NodeName]++
		}
		slices.SortStableFunc(active, func(a, b *corev1.Pod) int {
			return podstate.CompareForDeletionFromNodes(a, b, onNode, now)
		})
		return diff{delete: active[:min(surplus, burstReplicas)]}
	}
	return diff{}
}

// desired returns the replicas that a ReplicaSet should have.
func desired(rs *appsv1.ReplicaSet) int32 { return ptr.Deref(rs.Spec.Replicas, 1) }

// statusOf returns the status of a ReplicaSet with these pods. after is the time until another pod
// becomes available, or zero. failed is the failure to create or delete pods in this reconcile, or
// nil.
//
//upstream:pkg/controller/replicaset.calculateStatus
func statusOf(rs *appsv1.ReplicaSet, owned []*corev1.Pod, failed *failure,
	now time.Time) (status appsv1.ReplicaSetStatus, after time.Duration) {
	status = appsv1.ReplicaSetStatus{ObservedGeneration: rs.Generation,
		Conditions: conditions(rs.Status.Conditions, failed, now)}
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

// failure is an error in creating or deleting pods, with the reason of the condition.
type failure struct {
	reason string
	err    error
}

// conditions adds or removes the condition ReplicaFailure. One that is there is kept, since the error of each
// attempt has another name of a pod; kube-controller-manager's calculateStatus does the same.
//
//upstream:pkg/controller/replicaset.calculateStatus
func conditions(old []appsv1.ReplicaSetCondition, t *failure, now time.Time) []appsv1.ReplicaSetCondition {
	isFailure := func(c appsv1.ReplicaSetCondition) bool { return c.Type == appsv1.ReplicaSetReplicaFailure }
	switch failed := slices.ContainsFunc(old, isFailure); {
	case t == nil && failed:
		return slices.DeleteFunc(slices.Clone(old), isFailure)
	case t != nil && !failed:
		return append(slices.Clone(old), appsv1.ReplicaSetCondition{
			Type: appsv1.ReplicaSetReplicaFailure, Status: corev1.ConditionTrue,
			Reason: t.reason, Message: t.err.Error(), LastTransitionTime: metav1.NewTime(now),
		})
	}
	return old
}
