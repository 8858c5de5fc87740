package pods

import (
	"fmt"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/controllers/internal/podstate"
)

// containers computes the container statuses of a pod.
type containers struct {
	pod           *corev1.Pod
	started       bool     // the delay before they start has passed
	missingImages []string // patterns of images that cannot be pulled
	now           metav1.Time
}

// statuses returns the statuses of the init containers and of the others, and whether all init
// containers have completed, or started if they are sidecars.
func (c *containers) statuses() (inits, mains []corev1.ContainerStatus, initialized bool) {
	reason := "ContainerCreating"
	if len(c.pod.Spec.InitContainers) > 0 {
		reason = "PodInitializing"
	}
	initialized = c.started
	for i := range c.pod.Spec.InitContainers {
		spec := &c.pod.Spec.InitContainers[i]
		s := c.waitingStatus(spec, reason)
		if initialized {
			if podstate.IsSidecar(spec) {
				s = c.startedStatus(spec, c.pod.Status.InitContainerStatuses, outcome{})
			} else {
				s = c.startedStatus(spec, c.pod.Status.InitContainerStatuses, outcome{terminates: true})
			}
		}
		initialized = initialized && s.State.Waiting == nil
		inits = append(inits, s)
	}
	for i := range c.pod.Spec.Containers {
		spec := &c.pod.Spec.Containers[i]
		s := c.waitingStatus(spec, reason)
		if initialized {
			s = c.startedStatus(spec, c.pod.Status.ContainerStatuses, outcomeOf(c.pod))
		}
		mains = append(mains, s)
	}
	return inits, mains, initialized || len(inits) == 0
}

// waitingStatus returns the status of a container that is waiting.
func (c *containers) waitingStatus(spec *corev1.Container, reason string) corev1.ContainerStatus {
	return corev1.ContainerStatus{
		Name: spec.Name, Image: spec.Image, Started: new(bool),
		State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}},
	}
}

// startedStatus returns the status of a container that starts, or has started, with an outcome. If
// its image has changed it is restarted; if its image cannot be pulled it is waiting.
func (c *containers) startedStatus(spec *corev1.Container, all []corev1.ContainerStatus,
	out outcome) corev1.ContainerStatus {
	var old corev1.ContainerStatus
	if i := slices.IndexFunc(all, func(s corev1.ContainerStatus) bool { return s.Name == spec.Name }); i >= 0 {
		old = all[i]
	}
	s := corev1.ContainerStatus{
		Name: spec.Name, Image: spec.Image, Started: new(bool),
		RestartCount: old.RestartCount, LastTerminationState: old.LastTerminationState,
	}
	changed := old.Image != spec.Image
	if changed && old.State.Running != nil {
		s.RestartCount++
		s.LastTerminationState = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			Reason: "Completed", StartedAt: old.State.Running.StartedAt, FinishedAt: c.now, ContainerID: old.ContainerID,
		}}
	}
	if old.State.Terminated == nil && (changed || old.State.Running == nil) && isMissing(spec.Image, c.missingImages) {
		var was string
		if old.State.Waiting != nil && !changed {
			was = old.State.Waiting.Reason
		}
		s.State.Waiting = pullFailure(spec, was)
		return s
	}
	startedAt, finishedAt := c.now, c.now
	switch {
	case old.State.Running != nil && !changed:
		startedAt = old.State.Running.StartedAt
	case old.State.Terminated != nil:
		startedAt, finishedAt = old.State.Terminated.StartedAt, old.State.Terminated.FinishedAt
	case crashed(&old) && !changed:
		if untilRestart(&old, c.now.Time) > 0 {
			return old
		}
		s.RestartCount++
	}
	s.ImageID = spec.Image
	s.ContainerID = "flyball://" + string(c.pod.UID) + "/" + spec.Name
	if s.RestartCount > 0 {
		s.ContainerID += "/" + strconv.Itoa(int(s.RestartCount))
	}
	if old.State.Terminated == nil && (!out.terminates || c.now.Sub(startedAt.Time) < out.after) {
		s.Ready, *s.Started = !out.unready, !out.unready
		s.State.Running = &corev1.ContainerStateRunning{StartedAt: startedAt}
		return s
	}
	c.terminate(spec, &s, corev1.ContainerStateTerminated{ExitCode: out.exitCode, Reason: "Completed", StartedAt: startedAt,
		FinishedAt: finishedAt, ContainerID: s.ContainerID})
	return s
}

// terminate sets the state of a container that has terminated: one that has failed waits to be
// restarted if that is the policy.
func (c *containers) terminate(spec *corev1.Container, s *corev1.ContainerStatus, end corev1.ContainerStateTerminated) {
	if end.ExitCode != 0 {
		end.Reason = "Error"
	}
	switch {
	case end.ExitCode != 0 && c.pod.Spec.RestartPolicy == corev1.RestartPolicyOnFailure:
		s.State.Waiting = crashLoopBackOff(c.pod, spec, s.RestartCount)
		s.LastTerminationState.Terminated = &end
	default:
		s.Ready = slices.ContainsFunc(c.pod.Spec.InitContainers, func(i corev1.Container) bool { return i.Name == spec.Name })
		s.State.Terminated = &end
	}
}

// pullFailure returns the waiting state of a container whose image cannot be pulled: ErrImagePull
// first, then ImagePullBackOff. was is the reason for which it is already waiting for that image,
// or "".
func pullFailure(spec *corev1.Container, was string) *corev1.ContainerStateWaiting {
	switch {
	case spec.ImagePullPolicy == corev1.PullNever:
		return &corev1.ContainerStateWaiting{Reason: errImageNeverPull,
			Message: fmt.Sprintf("Container image %q is not present with pull policy of Never", spec.Image)}
	case was == errImagePull || was == imagePullBackOff:
		return &corev1.ContainerStateWaiting{Reason: imagePullBackOff,
			Message: fmt.Sprintf("Back-off pulling image %q: %s: %s", spec.Image, errImagePull, pullError(spec.Image))}
	default:
		return &corev1.ContainerStateWaiting{Reason: errImagePull, Message: pullError(spec.Image)}
	}
}
