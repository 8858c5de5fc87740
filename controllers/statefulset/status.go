package statefulset

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"flyball.dev/controllers/internal/podstate"
)

// statusOf returns the status of a StatefulSet with these pods. after is the time until another pod
// becomes available, or zero.
//
//upstream:pkg/controller/statefulset.computeReplicaStatus
func statusOf(o *observed) (status appsv1.StatefulSetStatus, after time.Duration) {
	count := collisions(o.set)
	status = appsv1.StatefulSetStatus{
		ObservedGeneration: o.set.Generation,
		CurrentRevision:    o.current.name,
		UpdateRevision:     o.update.name,
		CollisionCount:     &count,
		Conditions:         o.set.Status.Conditions,
	}
	for _, pod := range o.pods {
		status.Replicas++
		if runningAndReady(pod) {
			status.ReadyReplicas++
			switch ok, left := o.available(pod); {
			case ok:
				status.AvailableReplicas++
			case left > 0 && (after == 0 || left < after):
				after = left
			}
		}
		if pod.DeletionTimestamp == nil {
			if revisionOf(pod) == o.current.name {
				status.CurrentReplicas++
			}
			if revisionOf(pod) == o.update.name {
				status.UpdatedReplicas++
			}
		}
	}
	return status, after
}

// completeUpdate makes the update revision the current revision if an update is complete: all pods are replicas with the
// update revision and are ready.
//
//upstream:pkg/controller/statefulset.completeUpdate
func completeUpdate(set *appsv1.StatefulSet, status *appsv1.StatefulSetStatus) {
	want := int32(desired(set))
	if status.UpdatedReplicas == want && status.ReadyReplicas == want && status.Replicas == want {
		status.CurrentReplicas = status.UpdatedReplicas
		status.CurrentRevision = status.UpdateRevision
	}
}

// runningAndReady reports whether a pod is running and ready.
//
//upstream:pkg/controller/statefulset.isRunningAndReady
func runningAndReady(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodRunning && podstate.Ready(pod)
}

// available reports whether a pod has been ready for minReadySeconds. left is the time until then.
//
//upstream:pkg/controller/statefulset.isRunningAndAvailable
func (o *observed) available(pod *corev1.Pod) (ok bool, left time.Duration) {
	return podstate.Available(pod, time.Duration(o.set.Spec.MinReadySeconds)*time.Second, o.now)
}

// unavailable reports whether a pod is not available or is being deleted. Its phase does not matter.
//
//upstream:pkg/controller/statefulset.isUnavailable
func (o *observed) unavailable(pod *corev1.Pod) bool {
	ok, _ := o.available(pod)
	return !ok || pod.DeletionTimestamp != nil
}

// healthy reports whether a pod exists, is running, ready and available, and is not being deleted.
func (o *observed) healthy(pod *corev1.Pod) bool {
	return pod != nil && runningAndReady(pod) && !o.unavailable(pod)
}
