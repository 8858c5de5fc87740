package pods

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/controllers/internal/podstate"
	"flyball.dev/controllers/pods/sandbox"
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

// backOff returns the delay before a container restarts. end is the end of its last run, and last is the end of the run
// before, or nil. There is no delay after the first run, after
// the first run since a restart of all containers, and after a run of more than 10 minutes. Otherwise the delay is
// twice the delay before the last run, which is the time from last to the start of that run.
//
//upstream:k8s.io/client-go/util/flowcontrol.Backoff
func backOff(last, end *corev1.ContainerStateTerminated) time.Duration {
	if last == nil || last.Reason == restartingAllContainers || end.FinishedAt.Sub(end.StartedAt.Time) > 2*maxRestart {
		return 0
	}
	delay := firstRestart
	for waited := end.StartedAt.Sub(last.FinishedAt.Time); delay <= waited && delay < maxRestart; {
		delay *= 2
	}
	return min(delay, maxRestart)
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

// hookHasFailed reports whether a container has stopped because its hook postStart has failed, and has not restarted yet.
func (c *containers) hookHasFailed(s *corev1.ContainerStatus) bool {
	r := c.runOf(s.Name, s.RestartCount)
	return postStartFailed(s) && (r == nil || r.End != nil && s.LastTerminationState.Terminated.ContainerID == sandbox.ID(c.pod, s.Name, s.RestartCount))
}

// restartAfterHook restarts a container with a hook postStart that has failed, at once or after a delay.
func (c *containers) restartAfterHook(spec *corev1.Container, s, old *corev1.ContainerStatus, as role) {
	end := old.LastTerminationState.Terminated
	var last *corev1.ContainerStateTerminated
	if r := c.runOf(s.Name, old.RestartCount-1); r != nil && r.End != nil {
		last = &corev1.ContainerStateTerminated{FinishedAt: metav1.NewTime(r.End.At.Truncate(time.Second))}
	}
	delay := backOff(last, end)
	if left := end.FinishedAt.Add(delay).Sub(c.now.Time); left > 0 {
		c.until(left)
		c.setID(s)
		s.State.Waiting = crashLoopBackOff(c.pod, spec, delay)
		return
	}
	s.RestartCount++
	c.run(spec, s, old, as, c.now)
}

// backsOff reports whether a container of a pod that goes on waits to be restarted: it has crashed, or it is a sidecar that has
// succeeded.
func backsOff(c *corev1.Container, s *corev1.ContainerStatus) bool {
	return crashed(s) || podstate.IsSidecar(c) && s.State.Terminated != nil
}

// untilRestart returns the time until a container that has crashed is restarted. Its message has the delay.
func untilRestart(s *corev1.ContainerStatus, now time.Time) time.Duration {
	text, _, _ := strings.Cut(strings.TrimPrefix(s.State.Waiting.Message, "back-off "), " ")
	delay, err := time.ParseDuration(text)
	if err != nil {
		delay = firstRestart // somebody has changed the status
	}
	return s.LastTerminationState.Terminated.FinishedAt.Add(min(delay, maxRestart)).Sub(now)
}
