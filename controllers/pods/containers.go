package pods

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"flyball.dev/controllers/internal/podstate"
	"flyball.dev/controllers/pods/sandbox"
)

// containers computes the container statuses of a pod, and which processes have to be started and stopped.
type containers struct {
	courses
	actions
	started       bool              // the delay before they start has passed
	missingImages []string          // patterns of images that cannot be pulled
	config        map[string]string // by container, the error in its configuration
	stopping      map[string]moment // by container, when the stop of a changed one began
	preStops      map[string]sandbox.PreStop
	generation    int64 // of the pod when its last resize was granted, or zero
	now           metav1.Time

	pulledSince time.Time // when the pull of the next container began
	podLimits   bool      // a container stops because of new limits of the pod
}

// runKey is the key of a run of a container of a pod.
type runKey struct {
	container string
	number    int32
}

// change is a run of a container that is stopped because the container has changed.
type change struct {
	runKey
	since   time.Time
	message string // of the event
}

// until notes a change by time.
func (c *containers) until(d time.Duration) {
	if d = max(d, time.Millisecond); c.after == 0 || d < c.after {
		c.after = d
	}
}

// statuses returns the statuses of the init containers and of the other containers. initialized reports whether all
// init containers have completed, or have started if they are sidecars.
//
//upstream:pkg/kubelet.Kubelet.convertToAPIContainerStatuses
func (c *containers) statuses() (inits, mains []corev1.ContainerStatus, initialized bool) {
	reason := c.initialReason()
	// An initialized pod stays initialized: a sidecar that has to wait again does not stop the other containers.
	before := c.started && !isReset(&c.pod.Status) && slices.ContainsFunc(c.pod.Status.Conditions, func(p corev1.PodCondition) bool {
		return p.Type == corev1.PodInitialized && p.Status == corev1.ConditionTrue
	})
	completed := completed(c.pod, &c.pod.Status)
	initialized = c.started
	c.pulledSince = c.now.Time
	if c.pod.Status.StartTime != nil {
		c.pulledSince = c.pod.Status.StartTime.Time
	}
	for i := range c.pod.Spec.InitContainers {
		spec := &c.pod.Spec.InitContainers[i]
		old := find(c.pod.Status.InitContainerStatuses, spec.Name)
		s := c.waitingStatus(spec, &old, reason)
		switch {
		case !initialized && !hasRun(old):
		case !podstate.IsSidecar(spec):
			s = c.startedStatus(spec, c.pod.Status.InitContainerStatuses, initRole)
		case completed:
			if hasRun(old) {
				s = old // it does not start again
			}
		default:
			s = c.startedStatus(spec, c.pod.Status.InitContainerStatuses, sidecarRole)
		}
		initialized = before || initialized && isInitialized(spec, &s)
		if end := s.State.Terminated; end != nil && end.FinishedAt.After(c.pulledSince) {
			c.pulledSince = end.FinishedAt.Time
		}
		inits = append(inits, s)
	}
	for i := range c.pod.Spec.Containers {
		spec := &c.pod.Spec.Containers[i]
		old := find(c.pod.Status.ContainerStatuses, spec.Name)
		s := c.waitingStatus(spec, &old, reason)
		if initialized {
			s = c.startedStatus(spec, c.pod.Status.ContainerStatuses, mainRole)
		}
		mains = append(mains, s)
	}
	return inits, mains, initialized || len(inits) == 0
}

// hasRun reports whether a container has been started, and was not removed since. A sidecar in front of it that restarts does not
// stop it.
func hasRun(s corev1.ContainerStatus) bool {
	return !wasReset(&s) && (s.State.Running != nil || s.State.Terminated != nil || s.LastTerminationState.Terminated != nil)
}

// isInitialized reports whether an init container has completed, or has started if it is a sidecar.
func isInitialized(spec *corev1.Container, s *corev1.ContainerStatus) bool {
	if podstate.IsSidecar(spec) {
		return s.State.Running != nil && ptr.Deref(s.Started, false)
	}
	return s.State.Terminated != nil && s.State.Terminated.ExitCode == 0
}

// completed reports whether all containers of a pod besides sidecars have terminated for good, or an init container has failed
// for good.
func completed(pod *corev1.Pod, s *corev1.PodStatus) bool {
	for i := range pod.Spec.InitContainers {
		if hasFailed(&pod.Spec.InitContainers[i], s.InitContainerStatuses) {
			return true
		}
	}
	for i := range pod.Spec.Containers {
		spec := &pod.Spec.Containers[i]
		end := find(s.ContainerStatuses, spec.Name).State.Terminated
		if end == nil || restarts(pod, spec, end.ExitCode) {
			return false
		}
	}
	return true
}

// hasFailed reports whether an init container has failed for good.
func hasFailed(spec *corev1.Container, all []corev1.ContainerStatus) bool {
	end := find(all, spec.Name).State.Terminated
	return !podstate.IsSidecar(spec) && end != nil && end.ExitCode != 0 && !demandsAll(spec, end.ExitCode)
}

// ephemeralStatuses returns the statuses of the ephemeral containers. They start without regard to the init containers, run
// once, and are never ready. None starts when the other containers of the pod have completed.
//
//upstream:pkg/kubelet/kuberuntime.kubeGenericRuntimeManager.computePodActions
func (c *containers) ephemeralStatuses(completed bool) (all []corev1.ContainerStatus) {
	for i := range c.pod.Spec.EphemeralContainers {
		spec := (*corev1.Container)(&c.pod.Spec.EphemeralContainers[i].EphemeralContainerCommon)
		old := find(c.pod.Status.EphemeralContainerStatuses, spec.Name)
		s := c.waitingStatus(spec, &old, c.initialReason())
		switch {
		case completed && old.Name != "":
			s = old
		case c.started && !completed:
			s = c.startedStatus(spec, c.pod.Status.EphemeralContainerStatuses, ephemeralRole)
		}
		s.Ready, s.Started = false, nil
		all = append(all, s)
	}
	return all
}

// initialReason returns the reason of a container that waits for its first start.
func (c *containers) initialReason() string {
	if len(c.pod.Spec.InitContainers) > 0 {
		return "PodInitializing"
	}
	return "ContainerCreating"
}

// waitingStatus returns the status of a container that is waiting.
//
//upstream:pkg/kubelet.Kubelet.convertToAPIContainerStatuses
func (c *containers) waitingStatus(spec *corev1.Container, old *corev1.ContainerStatus, reason string) corev1.ContainerStatus {
	return corev1.ContainerStatus{
		Name: spec.Name, Image: spec.Image, Started: new(bool),
		RestartCount: old.RestartCount, LastTerminationState: old.LastTerminationState,
		State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}},
	}
}

// startedStatus returns the status of a container that starts, or has started. A container with a changed image restarts.
// A container waits if its image cannot be pulled.
//
//upstream:pkg/kubelet/kuberuntime.kubeGenericRuntimeManager.computePodActions
func (c *containers) startedStatus(spec *corev1.Container, all []corev1.ContainerStatus, as role) corev1.ContainerStatus {
	old := find(all, spec.Name)
	s := corev1.ContainerStatus{
		Name: spec.Name, Image: spec.Image, Started: new(bool),
		RestartCount: old.RestartCount, LastTerminationState: old.LastTerminationState,
	}
	byPod := c.restartsOnPodResize(&old, spec)
	other := old.Image != spec.Image || restartsOnResize(&old, spec) // kubelet takes it for another container
	changed := other || byPod
	if changed && old.State.Running != nil {
		var end *corev1.ContainerStateTerminated
		if end = c.killedByChange(spec, &old); end == nil {
			c.podLimits = c.podLimits || byPod
			return c.stillRunning(spec, old, as)
		}
		c.startNext(&s, c.delayAfterChange(&s, other))
		s.LastTerminationState = corev1.ContainerState{Terminated: end}
	}
	waitsForRestart := crashed(&old) && !changed && untilRestart(&old, c.now.Time) > 0
	if old.State.Terminated == nil && (changed || old.State.Running == nil) {
		if w := c.pull(spec, &old, old.Image != spec.Image && (old.Image != "" || as == ephemeralRole)); w != nil {
			s.State.Waiting = w
			return s
		}
		if message := c.config[spec.Name]; message != "" && !waitsForRestart {
			s.State.Waiting = &corev1.ContainerStateWaiting{Reason: createContainerConfigError, Message: message}
			return s
		}
	}
	s.ImageID = spec.Image
	resources(&s, spec)
	switch {
	case old.State.Running != nil && !changed:
		c.run(spec, &s, &old, as, old.State.Running.StartedAt)
	case old.State.Terminated != nil:
		if changed && as == sidecarRole {
			s.LastTerminationState = corev1.ContainerState{} // another container has no back-off
			delete(c.delays, runKey{s.Name, s.RestartCount})
		}
		c.setID(&s)
		c.terminate(spec, &s, as, *old.State.Terminated, false)
	case waitsForRestart:
		c.until(untilRestart(&old, c.now.Time))
		return old
	case postStartFailed(&old):
		c.restartAfterHook(spec, &s, &old, as)
	case crashed(&old):
		delay := shownDelay(&old)
		if changed || isForgotten(old.LastTerminationState.Terminated.StartedAt.Time, c.now.Time) {
			delay = 0
		}
		c.startNext(&s, doubled(delay))
		c.run(spec, &s, &old, as, c.now)
	default:
		c.run(spec, &s, &old, as, c.now)
	}
	return s
}

// killedByChange returns the end of the last run of a changed container, or nil while it stops.
func (c *containers) killedByChange(spec *corev1.Container, old *corev1.ContainerStatus) *corev1.ContainerStateTerminated {
	key := runKey{old.Name, old.RestartCount}
	r := c.runOf(key.container, key.number)
	if r != nil && r.End != nil {
		end := c.terminated(old, pointOf(r).end, old.State.Running.StartedAt)
		return &end
	}
	since := c.stopSince(spec, old)
	c.changes = append(c.changes, change{key, since, whyChanged(spec, old)})
	if r != nil {
		c.stop = append(c.stop, key)
		return nil
	}
	limit := since.Add(gracePeriod(c.pod))
	e := c.scriptedStop(spec, c.terminatedAt(spec, key.number, since, limit), limit)
	if left := e.at.Sub(c.now.Time); left > 0 {
		c.until(left)
		return nil
	}
	end := c.terminated(old, e, old.State.Running.StartedAt)
	return &end
}

// stopSince returns when the stop of a changed container began. After a restart of the controller the status has it for a resize that
// is in progress. It has nothing for another image, so that stop begins anew.
func (c *containers) stopSince(spec *corev1.Container, old *corev1.ContainerStatus) time.Time {
	if m, ok := c.stopping[old.Name]; ok && m.number == old.RestartCount {
		return m.at
	}
	p := podstate.Condition(c.pod, corev1.PodResizeInProgress)
	if p != nil && old.Image == spec.Image && !p.LastTransitionTime.Before(&old.State.Running.StartedAt) &&
		equality.Semantic.DeepEqual(old.AllocatedResources, spec.Resources.Requests) {
		return p.LastTransitionTime.Time
	}
	return c.now.Time
}

// whyChanged returns the message of the event of a container that is stopped because it has changed.
//
//upstream:pkg/kubelet/kuberuntime.kubeGenericRuntimeManager.computePodActions
//upstream:pkg/kubelet/kuberuntime.kubeGenericRuntimeManager.computePodResizeAction
func whyChanged(spec *corev1.Container, old *corev1.ContainerStatus) string {
	if old.Image != spec.Image {
		return fmt.Sprintf("Container %s definition changed, will be restarted", spec.Name)
	}
	return fmt.Sprintf("Container %s resize requires restart", spec.Name)
}

// stillRunning returns the status of a changed container while it stops.
func (c *containers) stillRunning(spec *corev1.Container, old corev1.ContainerStatus, as role) corev1.ContainerStatus {
	p := c.at(spec, as, old.RestartCount, old.State.Running.StartedAt.Time, c.now.Time)
	old.Ready, old.Started = p.ready && as != initRole, &p.started
	old.AllocatedResources = spec.Resources.Requests
	return old
}

// run sets the state of a container that has been started. The container still runs, or it has terminated, or its process
// has to be started.
func (c *containers) run(spec *corev1.Container, s, old *corev1.ContainerStatus, as role, startedAt metav1.Time) {
	c.setID(s)
	p := c.at(spec, as, s.RestartCount, startedAt.Time, c.now.Time)
	if !p.startedAt.IsZero() {
		startedAt = metav1.NewTime(p.startedAt.Truncate(time.Second))
	}
	c.untilPoint(p)
	switch {
	case p.absent:
		c.start = append(c.start, runKey{spec.Name, s.RestartCount})
		if old.State.Running != nil && old.RestartCount == s.RestartCount {
			*s = *old // the process is gone since the control plane was restarted
			return
		}
		c.wait(s, old)
	case p.end != nil && p.end.postStart != "" && c.showsHookError(spec, as, p.end.exitCode):
		end := c.terminated(s, p.end, startedAt)
		s.LastTerminationState = corev1.ContainerState{Terminated: &end}
		s.State.Waiting = &corev1.ContainerStateWaiting{Reason: postStartHookError, Message: p.end.postStart}
		c.until(0)
	case p.end != nil:
		c.terminate(spec, s, as, c.terminated(s, p.end, startedAt), p.end.restarts)
	case p.starting && (s.RestartCount > old.RestartCount || old.State.Running != nil):
		*s = *old // kubelet writes no status until the hook postStart has returned, and runs none in a container that runs already
	case p.starting:
		c.wait(s, old)
	default:
		s.Ready, *s.Started = p.ready && as != initRole, p.started
		s.State.Running = &corev1.ContainerStateRunning{StartedAt: startedAt}
	}
}

// showsHookError reports whether a container with a hook postStart that has failed waits with the error. One that does not restart is
// Terminated, and so is a sidecar that has succeeded.
//
//upstream:pkg/kubelet.Kubelet.convertToAPIContainerStatuses
func (c *containers) showsHookError(spec *corev1.Container, as role, exitCode int32) bool {
	return restarts(c.pod, spec, exitCode) && !demandsAll(spec, exitCode) && (as != sidecarRole || exitCode != 0)
}

// untilPoint notes the next change of a run by time.
func (c *containers) untilPoint(p point) {
	if p.next > 0 {
		c.until(p.next)
	}
}

// wait sets the state of a container with a process that has not started yet.
func (c *containers) wait(s, old *corev1.ContainerStatus) {
	s.ContainerID, s.ImageID, s.Resources, s.AllocatedResources = "", "", nil, nil
	if s.RestartCount > 0 && old.ContainerID != "" {
		s.ContainerID, s.ImageID = old.ContainerID, old.ImageID // the last container
	}
	s.State.Waiting = &corev1.ContainerStateWaiting{Reason: c.initialReason()}
}

// terminated returns the state of a container after the end of a run.
func (c *containers) terminated(s *corev1.ContainerStatus, end *runEnd, startedAt metav1.Time) corev1.ContainerStateTerminated {
	t := corev1.ContainerStateTerminated{ExitCode: end.exitCode, Reason: end.reason, Message: end.message, StartedAt: startedAt,
		FinishedAt: c.now, ContainerID: s.ContainerID}
	if !end.at.IsZero() {
		t.FinishedAt = metav1.NewTime(end.at.Truncate(time.Second))
	}
	switch {
	case t.Reason != "":
	case t.ExitCode == 0:
		t.Reason = "Completed"
	default:
		t.Reason = "Error"
	}
	return t
}

// terminate sets the state of a container that has terminated. The container stays terminated, restarts, or waits for
// its restart. A sidecar that has succeeded is Terminated while it waits. A container that a probe has killed restarts at once, whatever
// its exit code is, unless it is in the back-off since the end of the run before.
//
//upstream:pkg/kubelet.Kubelet.convertToAPIContainerStatuses
//upstream:pkg/kubelet/kuberuntime.kubeGenericRuntimeManager.doBackOff
func (c *containers) terminate(spec *corev1.Container, s *corev1.ContainerStatus, as role, end corev1.ContainerStateTerminated, killed bool) {
	last := s.LastTerminationState.Terminated
	delay := c.delayOf(s, last, &end)
	switch {
	case killed && isRemoved(last):
		c.restart(spec, s, as, end, delay, killed)
		return
	case killed && end.FinishedAt.Sub(last.FinishedAt.Time) >= delay:
		c.restart(spec, s, as, end, doubled(delay), killed)
		return
	case demandsAll(spec, end.ExitCode):
		s.State.Terminated = &end // until all are restarted
		return
	case as == ephemeralRole, !restarts(c.pod, spec, end.ExitCode):
		s.Ready = as == initRole && end.ExitCode == 0
		s.State.Terminated = &end
		return
	}
	left := restartAt(&end, delay).Sub(c.now.Time)
	if left > 0 {
		c.until(left)
	}
	if left > 0 && as == sidecarRole && end.ExitCode == 0 {
		c.waits = append(c.waits, s.Name)
		s.State.Terminated = &end
		return
	}
	if left > 0 {
		s.LastTerminationState = corev1.ContainerState{Terminated: &end}
		s.State.Waiting = crashLoopBackOff(c.pod, spec, delay)
		return
	}
	c.restart(spec, s, as, end, doubled(delay), false)
}

// restart starts the next run of a container after the end of a run. delay is the back-off of the next run. A container that was killed to
// restart is never shown as Terminated.
func (c *containers) restart(spec *corev1.Container, s *corev1.ContainerStatus, as role, end corev1.ContainerStateTerminated, delay time.Duration, killed bool) {
	ended := *s
	ended.State.Terminated = &end
	if killed {
		ended = find(allContainers(&c.pod.Status), spec.Name)
	}
	s.LastTerminationState = corev1.ContainerState{Terminated: &end}
	c.startNext(s, delay)
	c.run(spec, s, &ended, as, c.now)
}

// setID sets the ID of a container. Each run has its own.
func (c *containers) setID(s *corev1.ContainerStatus) {
	s.ContainerID = sandbox.ID(c.pod, s.Name, s.RestartCount)
}
