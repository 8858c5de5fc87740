package pods

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"flyball.dev/controllers/internal/podstate"
)

// The exit codes of containers that are stopped.
const (
	exitKilled     = 137
	exitTerminated = 143
)

// statusUnknownReason is the reason of a container that did not exist when its pod ended.
//
//upstream:pkg/kubelet/container.ContainerReasonStatusUnknown
const statusUnknownReason = "ContainerStatusUnknown"

// ending is the end of a pod: its deletion, its deadline or its eviction.
type ending struct {
	since           time.Time
	grace           time.Duration
	reason, message string // of the pod; without a reason, its phase depends on the exit codes
}

// end returns the next step of a pod that ends: its containers are stopped, and then its status is final.
//
//upstream:pkg/kubelet.Kubelet.SyncTerminatingPod
func end(c *containers, why ending) step {
	s := *c.pod.Status.DeepCopy()
	s.ObservedGeneration = c.pod.Generation
	var left time.Duration
	running := c.live("")
	for spec, status := range statusesOf(c.pod, &s) {
		after := time.Duration(0)
		*status, after = c.stopped(spec, *status, why.since, why.grace)
		if after > 0 && (left == 0 || after < left) {
			left = after
		}
		running = running || status.State.Running != nil
	}
	next := step{after: left, ending: &why}
	if running {
		grace := max(why.since.Add(why.grace).Sub(c.now.Time), 0) // also for those that end by script
		next.stopPod = &grace
		c.setReady(&s)
	} else {
		c.finish(&s, why)
		next.ended = true
	}
	if !equality.Semantic.DeepEqual(s, c.pod.Status) {
		next.status = &s
	}
	return next
}

// stopped returns the status of a container that is stopped, and the time until it ends if it is scripted.
func (c *containers) stopped(spec *corev1.Container, s corev1.ContainerStatus, since time.Time, grace time.Duration) (corev1.ContainerStatus, time.Duration) {
	if s.State.Running == nil {
		return s, 0
	}
	e := &runEnd{exitCode: exitTerminated, at: c.now.Time}
	if r := c.runOf(s.Name, s.RestartCount); r != nil {
		if r.End == nil {
			p := pointOf(r)
			s.Ready, s.Started = p.ready && s.Started != nil, startedOf(&s, p.started)
			return s, 0
		}
		e = pointOf(r).end
	} else if script := c.script.container(c.pod, spec); script != nil && script.Stop != nil {
		e.exitCode = script.Stop.Code
		at := since.Add(script.Stop.After.Duration)
		if limit := since.Add(grace); at.After(limit) {
			e.exitCode, at = exitKilled, limit
		}
		if left := at.Sub(c.now.Time); left > 0 {
			return s, left
		}
		e.at = at
	}
	t := c.terminated(&s, e, s.State.Running.StartedAt)
	s.State = corev1.ContainerState{Terminated: &t}
	s.Ready, s.Started = false, startedOf(&s, false)
	return s, 0
}

// startedOf returns the field Started of a container: ephemeral containers have none.
func startedOf(s *corev1.ContainerStatus, started bool) *bool {
	if s.Started == nil {
		return nil
	}
	return &started
}

// finish makes the status of a pod without running containers final.
//
//upstream:pkg/kubelet/status.manager.TerminatePod
func (c *containers) finish(s *corev1.PodStatus, why ending) {
	failed := why.reason != ""
	for spec, status := range statusesOf(c.pod, s) {
		switch {
		case crashed(status):
			status.State, status.LastTerminationState = status.LastTerminationState, corev1.ContainerState{}
		case status.State.Terminated == nil:
			status.State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: exitKilled,
				Reason: statusUnknownReason, Message: "The container could not be located when the pod was terminated",
				FinishedAt: c.now}}
		}
		status.Ready = status.Ready && status.State.Terminated.ExitCode == 0 && !isMain(c.pod, spec.Name)
		status.Started = startedOf(status, false)
		failed = failed || isMain(c.pod, spec.Name) && status.State.Terminated.ExitCode != 0
	}
	s.Phase = corev1.PodSucceeded
	if failed || len(s.ContainerStatuses) == 0 {
		s.Phase = corev1.PodFailed
	}
	if why.reason != "" {
		s.Reason, s.Message = why.reason, why.message
	}
	c.setCondition(s, corev1.PodReadyToStartContainers, false, podSandboxNotReady, "pod sandbox is not ready")
	c.setReady(s)
}

// setReady sets the conditions ContainersReady and Ready.
func (c *containers) setReady(s *corev1.PodStatus) {
	ready, reason, message := containersReady(c.pod, s)
	c.setCondition(s, corev1.ContainersReady, ready, reason, message)
	if ready {
		ready, reason, message = readinessGatesPass(c.pod)
	}
	c.setCondition(s, corev1.PodReady, ready, reason, message)
}

// setCondition sets a condition of a pod.
func (c *containers) setCondition(s *corev1.PodStatus, kind corev1.PodConditionType, ok bool, reason, message string) {
	podstate.SetCondition(s, corev1.PodCondition{
		Type: kind, Status: conditionStatus(ok), Reason: reason, Message: message, LastTransitionTime: c.now,
		ObservedGeneration: c.pod.Generation,
	})
}

// statusesOf yields the containers of a pod with their statuses.
func statusesOf(pod *corev1.Pod, s *corev1.PodStatus) func(yield func(*corev1.Container, *corev1.ContainerStatus) bool) {
	return func(yield func(*corev1.Container, *corev1.ContainerStatus) bool) {
		for _, list := range [][]corev1.ContainerStatus{s.InitContainerStatuses, s.ContainerStatuses, s.EphemeralContainerStatuses} {
			for i := range list {
				if spec := podstate.Container(&pod.Spec, list[i].Name); spec != nil && !yield(spec, &list[i]) {
					return
				}
			}
		}
	}
}

// gracePeriod returns the grace period of a pod that is stopped by its node.
func gracePeriod(pod *corev1.Pod) time.Duration {
	return time.Duration(ptr.Deref(pod.Spec.TerminationGracePeriodSeconds, corev1.DefaultTerminationGracePeriodSeconds)) * time.Second
}

// deletion returns the end of a pod that is deleted.
func deletion(pod *corev1.Pod) ending {
	grace := time.Duration(ptr.Deref(pod.DeletionGracePeriodSeconds, 0)) * time.Second
	return ending{since: pod.DeletionTimestamp.Add(-grace), grace: grace}
}

// eviction returns the end of a pod that its script evicts, and the time until then. ok is false if it does not.
//
//upstream:pkg/kubelet/eviction.managerImpl.evictPod
func (c *containers) eviction(s *corev1.PodStatus) (why ending, left time.Duration, ok bool) {
	if c.script == nil || c.script.Evict == nil || s.StartTime == nil {
		return why, 0, false
	}
	e := c.script.Evict
	why = ending{since: s.StartTime.Add(jittered(c.pod, e.After, e.Jitter, "evict")), grace: gracePeriod(c.pod), reason: e.Reason, message: e.Message}
	if why.reason == "" {
		why.reason = "Evicted"
	}
	return why, why.since.Sub(c.now.Time), true
}

// disruption returns the condition of a pod that its node evicts.
func disruption(pod *corev1.Pod, message string, now metav1.Time) corev1.PodCondition {
	return corev1.PodCondition{
		Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: corev1.PodReasonTerminationByKubelet, Message: message,
		LastTransitionTime: now, ObservedGeneration: pod.Generation,
	}
}
