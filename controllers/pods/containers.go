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
	started       bool              // the delay before they start has passed
	missingImages []string          // patterns of images that cannot be pulled
	config        map[string]string // by container, the error in its configuration
	now           metav1.Time
}

// statuses returns the statuses of the init containers and of the other containers. initialized reports whether all
// init containers have completed, or have started if they are sidecars.
//
//upstream:pkg/kubelet.Kubelet.convertToAPIContainerStatuses
func (c *containers) statuses() (inits, mains []corev1.ContainerStatus, initialized bool) {
	reason := "ContainerCreating"
	if len(c.pod.Spec.InitContainers) > 0 {
		reason = "PodInitializing"
	}
	// An initialized pod stays initialized: a sidecar that has to wait again does not stop the other containers.
	before := c.started && slices.ContainsFunc(c.pod.Status.Conditions, func(p corev1.PodCondition) bool {
		return p.Type == corev1.PodInitialized && p.Status == corev1.ConditionTrue
	})
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
		initialized = before || initialized && s.State.Waiting == nil
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

// ephemeralStatuses returns the statuses of the ephemeral containers. They run and are never ready.
func (c *containers) ephemeralStatuses(initialized bool) (all []corev1.ContainerStatus) {
	for i := range c.pod.Spec.EphemeralContainers {
		spec := (*corev1.Container)(&c.pod.Spec.EphemeralContainers[i].EphemeralContainerCommon)
		s := c.waitingStatus(spec, "ContainerCreating")
		if c.started && initialized {
			s = c.startedStatus(spec, c.pod.Status.EphemeralContainerStatuses, outcome{})
		}
		s.Ready, s.Started = false, nil
		all = append(all, s)
	}
	return all
}

// waitingStatus returns the status of a container that is waiting.
//
//upstream:pkg/kubelet.Kubelet.convertToAPIContainerStatuses
func (c *containers) waitingStatus(spec *corev1.Container, reason string) corev1.ContainerStatus {
	return corev1.ContainerStatus{
		Name: spec.Name, Image: spec.Image, Started: new(bool),
		State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}},
	}
}

// startedStatus returns the status of a container that starts, or has started, with an outcome. A container with a
// changed image restarts at once. A container waits if its image cannot be pulled.
//
//upstream:pkg/kubelet/kuberuntime.kubeGenericRuntimeManager.computePodActions
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
	changed := old.Image != spec.Image || restartsOnResize(&old, spec)
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
	if message := c.config[spec.Name]; message != "" && old.State.Terminated == nil && (changed || old.State.Running == nil) &&
		!(crashed(&old) && !changed && untilRestart(&old, c.now.Time) > 0) {
		s.State.Waiting = &corev1.ContainerStateWaiting{Reason: createContainerConfigError, Message: message}
		return s
	}
	s.ImageID = spec.Image
	resources(&s, spec)
	switch {
	case old.State.Running != nil && !changed:
		c.run(spec, &s, out, old.State.Running.StartedAt)
	case old.State.Terminated != nil:
		c.setID(&s)
		c.terminate(spec, &s, out, *old.State.Terminated)
	case crashed(&old) && !changed && untilRestart(&old, c.now.Time) > 0:
		return old
	case crashed(&old):
		s.RestartCount++
		c.run(spec, &s, out, c.now)
	default:
		c.run(spec, &s, out, c.now)
	}
	return s
}

// run sets the state of a container that has been started. The container still runs, or it has terminated.
func (c *containers) run(spec *corev1.Container, s *corev1.ContainerStatus, out outcome, startedAt metav1.Time) {
	c.setID(s)
	if !out.terminates || c.now.Sub(startedAt.Time) < out.after {
		s.Ready, *s.Started = !out.unready, !out.unready
		s.State.Running = &corev1.ContainerStateRunning{StartedAt: startedAt}
		return
	}
	end := corev1.ContainerStateTerminated{ExitCode: out.exitCode, Reason: "Completed", StartedAt: startedAt,
		FinishedAt: c.now, ContainerID: s.ContainerID}
	if end.ExitCode != 0 {
		end.Reason = "Error"
	}
	c.terminate(spec, s, out, end)
}

// terminate sets the state of a container that has terminated. The container stays terminated, restarts, or waits for
// its restart.
func (c *containers) terminate(spec *corev1.Container, s *corev1.ContainerStatus, out outcome, end corev1.ContainerStateTerminated) {
	if !restarts(c.pod, spec, end.ExitCode) {
		s.Ready = isInit(c.pod, spec)
		s.State.Terminated = &end
		return
	}
	delay := backOff(s.LastTerminationState.Terminated, &end)
	s.LastTerminationState = corev1.ContainerState{Terminated: &end}
	if delay > 0 {
		s.State.Waiting = crashLoopBackOff(c.pod, spec, delay)
		return
	}
	s.RestartCount++
	c.run(spec, s, out, c.now)
}

// setID sets the ID of a container. Each run has its own.
func (c *containers) setID(s *corev1.ContainerStatus) {
	s.ContainerID = "flyball://" + string(c.pod.UID) + "/" + s.Name
	if s.RestartCount > 0 {
		s.ContainerID += "/" + strconv.Itoa(int(s.RestartCount))
	}
}

// pullFailure returns the waiting state of a container with an image that cannot be pulled: ErrImagePull first, then
// ImagePullBackOff. was is the reason for which the container already waits for the image, or "".
//
//upstream:pkg/kubelet/images.imageManager.EnsureImageExists
//upstream:pkg/kubelet/images.imageManager.pullImage
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
