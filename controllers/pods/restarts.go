package pods

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/controllers/internal/podstate"
)

// crashLoopBackOffReason is the reason of a container that waits for its restart.
//
//upstream:pkg/kubelet/container.ErrCrashLoopBackOff
const crashLoopBackOffReason = "CrashLoopBackOff"

// The delay before a container restarts begins with firstRestart and doubles up to maxRestart.
const (
	//upstream:pkg/kubelet.newCrashLoopBackOff
	firstRestart = 10 * time.Second
	maxRestart   = 5 * time.Minute
	// Kubelet forgets the back-off of a container when more than forgetAfter has passed since the start of its last run.
	forgetAfter = 10 * time.Minute
)

// restarts reports whether a container restarts after an exit code. An init container that has succeeded does not
// restart, unless it is a sidecar.
//
//upstream:pkg/kubelet/container.ShouldContainerBeRestarted
//upstream:pkg/api/v1/pod.ContainerShouldRestart
func restarts(pod *corev1.Pod, c *corev1.Container, exitCode int32) bool {
	if demandsAll(c, exitCode) {
		return true
	}
	if exitCode == 0 && isInit(pod, c.Name) && !podstate.IsSidecar(c) {
		return false
	}
	policy := pod.Spec.RestartPolicy
	if c.RestartPolicy != nil {
		if matchingAction(c, exitCode) == corev1.ContainerRestartRuleActionRestart {
			return true
		}
		policy = corev1.RestartPolicy(*c.RestartPolicy)
	}
	switch policy {
	case corev1.RestartPolicyNever:
		return false
	case corev1.RestartPolicyOnFailure:
		return exitCode != 0
	default:
		return true
	}
}

// matchingAction returns the action of the first rule of a container that is for an exit code, or "".
//
//upstream:pkg/api/v1/pod.FindMatchingContainerRestartRule
func matchingAction(c *corev1.Container, exitCode int32) corev1.ContainerRestartRuleAction {
	for _, r := range c.RestartPolicyRules {
		if r.ExitCodes == nil {
			continue
		}
		in := slices.Contains(r.ExitCodes.Values, exitCode)
		switch r.ExitCodes.Operator {
		case corev1.ContainerRestartRuleOnExitCodesOpIn:
			if in {
				return r.Action
			}
		case corev1.ContainerRestartRuleOnExitCodesOpNotIn:
			if !in {
				return r.Action
			}
		}
	}
	return ""
}

// isInit reports whether a container is an init container of a pod.
func isInit(pod *corev1.Pod, name string) bool {
	return slices.ContainsFunc(pod.Spec.InitContainers, func(c corev1.Container) bool { return c.Name == name })
}

// restartDelay is the back-off of a container during a run: the delay before the restart that follows. It is zero if the container was
// never restarted after an end that kubelet had seen.
type restartDelay struct {
	delay time.Duration
	since time.Time // the start of the run
}

// expireDelays forgets the back-offs that have expired, and returns the other ones, which the caller may change.
func expireDelays(delays map[runKey]restartDelay, now time.Time) map[runKey]restartDelay {
	delays = maps.Clone(delays)
	maps.DeleteFunc(delays, func(_ runKey, d restartDelay) bool { return isForgotten(d.since, now) })
	return delays
}

// shownDelays returns the back-offs of the runs that a status shows.
func shownDelays(s *corev1.PodStatus, delays map[runKey]restartDelay) map[runKey]restartDelay {
	if len(delays) == 0 {
		return nil
	}
	delays, all := maps.Clone(delays), allContainers(s)
	maps.DeleteFunc(delays, func(k runKey, _ restartDelay) bool { return find(all, k.container).RestartCount != k.number })
	return delays
}

// startNext counts the next run of a container, with its back-off.
func (c *containers) startNext(s *corev1.ContainerStatus, delay time.Duration) {
	s.RestartCount++
	if c.delays == nil {
		c.delays = map[runKey]restartDelay{}
	}
	c.delays[runKey{s.Name, s.RestartCount}] = restartDelay{delay, c.now.Time}
}

// isForgotten reports whether kubelet has forgotten the back-off of a run that began at start.
func isForgotten(start, now time.Time) bool { return now.Sub(start) > forgetAfter }

// delayOf returns the back-off of a container after a run: the delay that is known, or the one that the ends of the run before and of
// this one tell. There is none more than 10 minutes after the start of the run, also while the container waits.
//
//upstream:pkg/kubelet.NewMainKubelet
//upstream:pkg/kubelet.Kubelet.HandlePodCleanups
func (c *containers) delayOf(s *corev1.ContainerStatus, last, end *corev1.ContainerStateTerminated) time.Duration {
	known, ok := c.delays[runKey{s.Name, s.RestartCount}]
	switch {
	case end != nil && isForgotten(end.StartedAt.Time, c.now.Time):
		return 0
	case ok:
		return known.delay
	}
	return backOff(last, end)
}

// delayAfterChange returns the back-off of a running container that restarts because it has changed. The image and the resources of the
// container belong to the key of its back-off, and the limits of the pod do not.
//
//upstream:pkg/kubelet/kuberuntime.GetBackoffKey
func (c *containers) delayAfterChange(s *corev1.ContainerStatus, ofKey bool) (delay time.Duration) {
	if !ofKey {
		delay = c.delayOf(s, nil, nil)
	}
	if isRemoved(s.LastTerminationState.Terminated) {
		return delay
	}
	return doubled(delay)
}

// doubled returns the back-off that follows another one.
//
//upstream:k8s.io/client-go/util/flowcontrol.Backoff
func doubled(delay time.Duration) time.Duration { return min(max(2*delay, firstRestart), maxRestart) }

// isRemoved reports whether the run that ended last is unknown to kubelet: there was none, or a restart of all containers has removed it.
func isRemoved(last *corev1.ContainerStateTerminated) bool {
	return last == nil || last.Reason == restartingAllContainers
}

// backOff returns the back-off that the ends of the last two runs of a container tell, after a restart of the controller. There is none
// after the first run, and after the first run since a restart of all containers. Otherwise it is twice the delay before the last run,
// which is the time from last to the start of that run. A delay that was forgotten by then begins anew.
func backOff(last, end *corev1.ContainerStateTerminated) time.Duration {
	if isRemoved(last) {
		return 0
	}
	delay := firstRestart
	if isForgotten(last.StartedAt.Time, end.StartedAt.Time) {
		return delay
	}
	for waited := end.StartedAt.Sub(last.FinishedAt.Time); delay <= waited && delay < maxRestart; {
		delay = doubled(delay)
	}
	return delay
}

// crashLoopBackOff returns the waiting state of a container that is restarted after a delay.
//
//upstream:pkg/kubelet/kuberuntime.kubeGenericRuntimeManager.doBackOff
func crashLoopBackOff(pod *corev1.Pod, c *corev1.Container, delay time.Duration) *corev1.ContainerStateWaiting {
	return &corev1.ContainerStateWaiting{Reason: crashLoopBackOffReason, Message: fmt.Sprintf(
		"back-off %s restarting failed container=%s pod=%s_%s(%s)", delay, c.Name, pod.Name, pod.Namespace, pod.UID)}
}

// crashed reports whether a container waits to be restarted.
func crashed(s *corev1.ContainerStatus) bool {
	return s.State.Waiting != nil && s.State.Waiting.Reason == crashLoopBackOffReason &&
		s.LastTerminationState.Terminated != nil
}

// postStartHookError is the reason of a container with a hook postStart that has failed.
//
//upstream:pkg/kubelet/kuberuntime.ErrPostStartHook
const postStartHookError = "PostStartHookError"

// postStartFailed reports whether a status shows that the hook postStart has failed. The container may have restarted since.
func postStartFailed(s *corev1.ContainerStatus) bool {
	return s.State.Waiting != nil && s.State.Waiting.Reason == postStartHookError && s.LastTerminationState.Terminated != nil
}

// restartAfterHook restarts a container with a hook postStart that has failed, at once or after a delay.
func (c *containers) restartAfterHook(spec *corev1.Container, s, old *corev1.ContainerStatus, as role) {
	end := old.LastTerminationState.Terminated
	var last *corev1.ContainerStateTerminated
	if r := c.runOf(s.Name, old.RestartCount-1); r != nil && r.End != nil {
		last = &corev1.ContainerStateTerminated{StartedAt: metav1.NewTime(r.StartedAt.Truncate(time.Second)),
			FinishedAt: metav1.NewTime(r.End.At.Truncate(time.Second))}
	}
	delay := c.delayOf(old, last, end)
	if left := restartAt(end, delay).Sub(c.now.Time); left > 0 {
		c.until(left)
		c.setID(s)
		s.State.Waiting = crashLoopBackOff(c.pod, spec, delay)
		return
	}
	c.startNext(s, doubled(delay))
	c.run(spec, s, old, as, c.now)
}

// backsOff reports whether a container of a pod that goes on waits to be restarted: it has crashed, or it is a sidecar that has
// succeeded.
func backsOff(c *corev1.Container, s *corev1.ContainerStatus) bool {
	return crashed(s) || podstate.IsSidecar(c) && s.State.Terminated != nil
}

// restartAt returns when a container with a back-off restarts after the end of a run: when the delay has passed, or is forgotten.
//
//upstream:pkg/kubelet.Kubelet.HandlePodCleanups
func restartAt(end *corev1.ContainerStateTerminated, delay time.Duration) time.Time {
	// Kubelet forgets after, not at, forgetAfter, and the times of a status have whole seconds.
	at, forgotten := end.FinishedAt.Add(delay), end.StartedAt.Add(forgetAfter+time.Second)
	if at.After(forgotten) {
		return forgotten
	}
	return at
}

// untilRestart returns the time until a container that has crashed is restarted.
func untilRestart(s *corev1.ContainerStatus, now time.Time) time.Duration {
	return restartAt(s.LastTerminationState.Terminated, shownDelay(s)).Sub(now)
}

// shownDelay returns the delay in the message of a container that has crashed.
func shownDelay(s *corev1.ContainerStatus) time.Duration {
	text, _, _ := strings.Cut(strings.TrimPrefix(s.State.Waiting.Message, "back-off "), " ")
	delay, err := time.ParseDuration(text)
	if err != nil {
		delay = firstRestart // somebody has changed the status
	}
	return min(delay, maxRestart)
}
