// Package podstate has functions of the state of pods that controllers share.
package podstate

import (
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/ctrl/event"
	"flyball.dev/ctrl/predicate"
)

// Active reports whether the pod has neither terminated nor is terminating.
//
//upstream:pkg/controller.IsPodActive
func Active(pod *corev1.Pod) bool { return !Finished(pod) && pod.DeletionTimestamp == nil }

// FilterActive returns the active pods.
func FilterActive(pods []*corev1.Pod) []*corev1.Pod {
	var active []*corev1.Pod
	for _, p := range pods {
		if Active(p) {
			active = append(active, p)
		}
	}
	return active
}

// Finished reports whether the pod has terminated.
//
//upstream:pkg/api/v1/pod.IsPodPhaseTerminal
func Finished(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// Ended is a predicate for the events after which a pod uses no resources: it has terminated or was deleted.
var Ended = predicate.Funcs{
	CreateFunc: func(event.CreateEvent) bool { return false },
	UpdateFunc: func(e event.UpdateEvent) bool {
		return Finished(e.ObjectNew.(*corev1.Pod)) && !Finished(e.ObjectOld.(*corev1.Pod))
	},
}

// Condition returns the pod's condition of that type, or nil.
//
//upstream:pkg/api/v1/pod.GetPodCondition
func Condition(pod *corev1.Pod, kind corev1.PodConditionType) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == kind {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}

// Ready reports whether the pod's Ready condition is true.
//
//upstream:pkg/api/v1/pod.IsPodReady
func Ready(pod *corev1.Pod) bool {
	c := Condition(pod, corev1.PodReady)
	return c != nil && c.Status == corev1.ConditionTrue
}

// Available reports whether the pod has been ready for at least minReady. If it is ready, but not
// for that long, after is the time until it is available.
//
//upstream:pkg/api/v1/pod.IsPodAvailable
//upstream:pkg/controller.nextPodAvailabilityCheck
func Available(pod *corev1.Pod, minReady time.Duration, now time.Time) (ok bool, after time.Duration) {
	if !Ready(pod) {
		return false, 0
	}
	if minReady <= 0 {
		return true, 0
	}
	left := Condition(pod, corev1.PodReady).LastTransitionTime.Add(minReady).Sub(now)
	return left <= 0, max(left, 0)
}

// IsSidecar reports whether an init container is a sidecar: it is always restarted.
//
//upstream:pkg/api/v1/pod.IsRestartableInitContainer
func IsSidecar(c *corev1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

// OfJob reports whether the controller of a pod is a Job.
func OfJob(pod *corev1.Pod) bool {
	ref := metav1.GetControllerOfNoCopy(pod)
	return ref != nil && ref.Kind == "Job" && ref.APIVersion == batchv1.SchemeGroupVersion.String()
}

// SetCondition sets a condition of a pod in place of the one of its type. If the status is the same,
// the time of the last transition is kept; the time of the last probe always is. SetCondition reports whether more than
// the observed generation has changed.
//
//upstream:pkg/api/v1/pod.UpdatePodCondition
func SetCondition(status *corev1.PodStatus, c corev1.PodCondition) (changed bool) {
	for i := range status.Conditions {
		old := &status.Conditions[i]
		if old.Type != c.Type {
			continue
		}
		if old.Status == c.Status {
			c.LastTransitionTime = old.LastTransitionTime
		}
		c.LastProbeTime = old.LastProbeTime
		changed = old.Status != c.Status || old.Reason != c.Reason || old.Message != c.Message
		*old = c
		return changed
	}
	status.Conditions = append(status.Conditions, c)
	return true
}

// Containers yields all containers of a pod: init containers, containers and ephemeral containers.
func Containers(spec *corev1.PodSpec) func(yield func(*corev1.Container) bool) {
	return func(yield func(*corev1.Container) bool) {
		for _, list := range [...][]corev1.Container{spec.InitContainers, spec.Containers} {
			for i := range list {
				if !yield(&list[i]) {
					return
				}
			}
		}
		for i := range spec.EphemeralContainers {
			if !yield((*corev1.Container)(&spec.EphemeralContainers[i].EphemeralContainerCommon)) {
				return
			}
		}
	}
}

// Container returns a container of a pod, or nil.
func Container(spec *corev1.PodSpec, name string) *corev1.Container {
	for c := range Containers(spec) {
		if c.Name == name {
			return c
		}
	}
	return nil
}
