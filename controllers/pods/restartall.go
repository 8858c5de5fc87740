package pods

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"flyball.dev/controllers/internal/podstate"
)

// resetDelay is the longest time from the removal of all containers to their next start. kubelet syncs the pod again at once, and
// removed containers have no back-off. But the sync waits for a status of the pod that is newer than the last sync, and the next
// relist of the container runtime brings it.
//
//upstream:pkg/kubelet.genericPlegRelistPeriod
//upstream:pkg/kubelet/container.cache.GetNewerThan
const resetDelay = time.Second

// The reasons and messages of a pod in which a container demands the restart of all.
const (
	//upstream:pkg/kubelet.RestartingAllContainers
	restartingAllContainers        = "RestartingAllContainers"
	restartingAllContainersMessage = "The container is removed because RestartAllContainers in place"
	//upstream:pkg/kubelet/status.RestartAllContainersStarted
	restartAllContainersStarted        = "RestartAllContainersStarted"
	restartAllContainersStartedMessage = "container exited with restart policy rule"
	restartAllContainersKilling        = "killing"
)

// demandsAll reports whether a container demands the restart of all containers after an exit code.
//
//upstream:pkg/kubelet/container.ShouldAllContainersRestart
func demandsAll(c *corev1.Container, exitCode int32) bool {
	return matchingAction(c, exitCode) == corev1.ContainerRestartRuleActionRestartAllContainers
}

// mayDemandAll reports whether a container of a pod may demand the restart of all.
//
//upstream:pkg/api/v1/pod.AllContainersCouldRestart
func mayDemandAll(pod *corev1.Pod) bool {
	for c := range podstate.Containers(&pod.Spec) {
		if slices.ContainsFunc(c.RestartPolicyRules, func(r corev1.ContainerRestartRule) bool {
			return r.Action == corev1.ContainerRestartRuleActionRestartAllContainers
		}) {
			return true
		}
	}
	return false
}

// restartsAll reports whether all containers of a pod with this status restart: a container has ended that demands it. A pod that has
// completed stops its sidecars, and their ends demand nothing.
func restartsAll(pod *corev1.Pod, s *corev1.PodStatus) bool {
	if completed(pod, s) {
		return false
	}
	for spec, status := range statusesOf(pod, s) {
		if end := status.State.Terminated; end != nil && demandsAll(spec, end.ExitCode) {
			return true
		}
	}
	return false
}

// wasReset reports whether a container has not started since all containers were removed for their restart.
func wasReset(s *corev1.ContainerStatus) bool {
	last := s.LastTerminationState.Terminated
	return s.State.Waiting != nil && last != nil && last.Reason == restartingAllContainers
}

// isReset reports whether no main container has started since all containers were removed, so that the pod is initialized anew.
//
//upstream:pkg/kubelet/kuberuntime.HasAnyRegularContainerCreated
func isReset(s *corev1.PodStatus) bool {
	return !slices.ContainsFunc(s.ContainerStatuses, hasRun) &&
		slices.ContainsFunc(s.ContainerStatuses, func(s corev1.ContainerStatus) bool { return wasReset(&s) })
}

// waitsAfterReset reports whether the removed containers of a pod do not start yet. It notes the time until they do.
func (c *containers) waitsAfterReset() bool {
	p := podstate.Condition(c.pod, corev1.AllContainersRestarting)
	all := slices.Concat(c.pod.Status.InitContainerStatuses, c.pod.Status.ContainerStatuses)
	removed := func(s corev1.ContainerStatus) bool { return wasReset(&s) }
	if p == nil || slices.ContainsFunc(all, hasRun) || !slices.ContainsFunc(all, removed) {
		return false
	}
	left := p.LastTransitionTime.Add(resetDelay).Sub(c.now.Time)
	if left > 0 {
		c.until(left)
	}
	return left > 0
}

// reset kills the containers of a pod that restarts all, besides the ephemeral ones, without a grace period. When none runs, it
// removes them all: each waits for its next run.
//
//upstream:pkg/kubelet/kuberuntime.kubeGenericRuntimeManager.getContainersToReset
//upstream:pkg/kubelet.Kubelet.convertToAPIContainerStatuses
func (c *containers) reset(s *corev1.PodStatus) {
	c.noGrace = true
	since := c.now.Time
	if p := podstate.Condition(c.pod, corev1.AllContainersRestarting); p != nil && p.Status == corev1.ConditionTrue {
		since = p.LastTransitionTime.Time
	}
	runs := false
	for spec, status := range statusesOf(c.pod, s) {
		if roleOf(c.pod, spec) != ephemeralRole && c.kill(spec, status, since) {
			runs = true
		}
	}
	if runs {
		return
	}
	for spec, status := range statusesOf(c.pod, s) {
		if roleOf(c.pod, spec) == ephemeralRole || !hasRun(*status) {
			continue
		}
		*status = corev1.ContainerStatus{
			Name: spec.Name, Image: spec.Image, Started: new(bool), RestartCount: status.RestartCount,
			State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{
				Reason: restartingAllContainers, Message: restartingAllContainersMessage}},
			LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
				ExitCode: exitKilled, Reason: restartingAllContainers, Message: restartingAllContainersMessage}},
		}
		c.startNext(status, c.delayOf(status, nil, nil)) // the back-off stays
	}
}

// kill kills a container without a grace period, and reports whether it still runs.
func (c *containers) kill(spec *corev1.Container, s *corev1.ContainerStatus, since time.Time) (runs bool) {
	key := runKey{s.Name, s.RestartCount}
	r := c.runOf(key.container, key.number)
	switch {
	case r != nil && r.End == nil:
		c.stop = append(c.stop, key)
		runs = true
	case r != nil || s.State.Running == nil:
		return false
	default:
		left := c.scriptedStop(spec, since, since).at.Sub(c.now.Time)
		if runs = left > 0; runs {
			c.until(left)
		}
	}
	c.changes = append(c.changes, change{key, since, restartAllContainersKilling})
	return runs
}

// setAllRestarting sets the condition AllContainersRestarting of a pod with a container that may demand the restart of all.
//
//upstream:pkg/kubelet/status.GenerateAllContainersRestartingCondition
func (c *containers) setAllRestarting(s *corev1.PodStatus) {
	if !mayDemandAll(c.pod) {
		return
	}
	p := corev1.PodCondition{Type: corev1.AllContainersRestarting, Status: corev1.ConditionFalse, LastTransitionTime: c.now}
	switch {
	case s.Phase == corev1.PodSucceeded:
		p.Reason = "PodCompleted"
	case s.Phase == corev1.PodFailed:
		p.Reason = "PodFailed"
	case restartsAll(c.pod, s):
		p.Status, p.Reason, p.Message = corev1.ConditionTrue, restartAllContainersStarted, restartAllContainersStartedMessage
	}
	podstate.SetCondition(s, p)
}
