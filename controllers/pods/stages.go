package pods

import (
	"hash/fnv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/controllers/internal/podstate"
)

// Options say how the pods behave. The zero value makes every pod ready at once.
type Options struct {
	// Delay is the time from a pod's being bound to its being ready.
	Delay time.Duration
	// Jitter is added to the delay, between nothing and all of it; how much depends on the pod's UID.
	Jitter time.Duration
}

// OutcomeAnnotation on a pod says what becomes of it, in place of being ready for ever.
const OutcomeAnnotation = "flyball.dev/outcome"

// The values of the outcome annotation.
const (
	NeverReady = "NeverReady" // its containers run, but are not ready
	Succeeded  = "Succeeded"  // its containers run to their end
	Failed     = "Failed"     // its containers end with an error
)

// action is what the next stage of a pod's life asks for.
type action int

const (
	nothing action = iota
	bind
	report // write the status that statusOf gives
	remove // the deletion is complete
)

// next says what is to be done with a pod now, or after how long there will be something to do.
func next(pod *corev1.Pod, o Options, now time.Time) (do action, after time.Duration) {
	switch {
	case pod.DeletionTimestamp != nil:
		if mine := pod.Spec.NodeName == "" || pod.Spec.NodeName == NodeName; mine && grace(pod) > 0 {
			return remove, 0
		}
		return nothing, 0
	case pod.Spec.NodeName == "":
		if len(pod.Spec.SchedulingGates) > 0 || pod.Spec.SchedulerName != corev1.DefaultSchedulerName {
			return nothing, 0
		}
		return bind, 0
	case pod.Spec.NodeName != NodeName || podstate.Finished(pod):
		return nothing, 0
	}
	up, after := hasStarted(pod, o, now)
	if equality.Semantic.DeepEqual(statusOf(pod, up, pod.Status.PodIP, now), pod.Status) {
		return nothing, after
	}
	return report, after
}

// grace is how long the server still waits with a pod that is going.
func grace(pod *corev1.Pod) int64 {
	if pod.DeletionGracePeriodSeconds == nil {
		return 0
	}
	return *pod.DeletionGracePeriodSeconds
}

// hasStarted reports whether the delay of a bound pod is over, or for how long it goes on.
func hasStarted(pod *corev1.Pod, o Options, now time.Time) (ok bool, after time.Duration) {
	delay := o.Delay
	if o.Jitter > 0 {
		h := fnv.New64a()
		h.Write([]byte(pod.UID))
		delay += time.Duration(h.Sum64() % uint64(o.Jitter))
	}
	if delay <= 0 {
		return true, 0
	}
	since := now
	if pod.Status.StartTime != nil {
		since = pod.Status.StartTime.Time
	}
	left := since.Add(delay).Sub(now)
	return left <= 0, max(left, 0)
}

// statusOf is the status of a pod on the node whose containers are up, or are only being made.
// Conditions and containers that stay as they are keep their times.
func statusOf(pod *corev1.Pod, up bool, ip string, at time.Time) corev1.PodStatus {
	now := metav1.NewTime(at)
	s := *pod.Status.DeepCopy()
	s.ObservedGeneration = pod.Generation
	s.HostIP, s.HostIPs = NodeIP, []corev1.HostIP{{IP: NodeIP}}
	if s.StartTime == nil {
		s.StartTime = &now
	}
	if ip != "" {
		s.PodIP, s.PodIPs = ip, []corev1.PodIP{{IP: ip}}
	}
	outcome := pod.Annotations[OutcomeAnnotation]
	ready := up && outcome != NeverReady
	switch {
	case !up:
		s.Phase = corev1.PodPending
	case outcome == Succeeded:
		s.Phase, ready = corev1.PodSucceeded, false
	case outcome == Failed:
		s.Phase, ready = corev1.PodFailed, false
	default:
		s.Phase = corev1.PodRunning
	}
	s.InitContainerStatuses = containers(pod.Spec.InitContainers, pod.Status.InitContainerStatuses, pod, func(c corev1.Container) state {
		switch {
		case !up:
			return creating
		case c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways:
			return running
		default:
			return done
		}
	}, now)
	s.ContainerStatuses = containers(pod.Spec.Containers, pod.Status.ContainerStatuses, pod, func(corev1.Container) state {
		switch {
		case !up:
			return creating
		case outcome == Succeeded:
			return done
		case outcome == Failed:
			return broken
		case outcome == NeverReady:
			return starting
		default:
			return running
		}
	}, now)
	set := func(kind corev1.PodConditionType, ok bool, reason string) {
		s.Conditions = withCondition(s.Conditions, kind, ok, reason, pod.Generation, now)
	}
	reason := ""
	switch {
	case podEnded(s.Phase):
		reason = "PodCompleted"
	case !ready:
		reason = "ContainersNotReady"
	}
	set(corev1.PodScheduled, true, "")
	set(corev1.PodReadyToStartContainers, up && !podEnded(s.Phase), "")
	set(corev1.PodInitialized, up || len(pod.Spec.InitContainers) == 0, "")
	set(corev1.ContainersReady, ready, reason)
	if ready && !gatesOpen(pod) {
		ready, reason = false, "ReadinessGatesNotReady"
	}
	set(corev1.PodReady, ready, reason)
	return s
}

func podEnded(p corev1.PodPhase) bool { return p == corev1.PodSucceeded || p == corev1.PodFailed }

func gatesOpen(pod *corev1.Pod) bool {
	for _, gate := range pod.Spec.ReadinessGates {
		if c := podstate.Condition(pod, gate.ConditionType); c == nil || c.Status != corev1.ConditionTrue {
			return false
		}
	}
	return true
}

func withCondition(list []corev1.PodCondition, kind corev1.PodConditionType, ok bool, reason string, generation int64, now metav1.Time) []corev1.PodCondition {
	c := corev1.PodCondition{Type: kind, Status: corev1.ConditionFalse, Reason: reason, LastTransitionTime: now, ObservedGeneration: generation}
	if ok {
		c.Status = corev1.ConditionTrue
	}
	for i := range list {
		if list[i].Type == kind {
			if list[i].Status == c.Status {
				c.LastTransitionTime = list[i].LastTransitionTime
			}
			c.LastProbeTime, c.Message = list[i].LastProbeTime, list[i].Message
			list[i] = c
			return list
		}
	}
	return append(list, c)
}

// state is how one container is.
type state int

const (
	creating state = iota
	starting       // runs, but is not ready
	running
	done
	broken
)

func containers(specs []corev1.Container, old []corev1.ContainerStatus, pod *corev1.Pod, stateOf func(corev1.Container) state, now metav1.Time) []corev1.ContainerStatus {
	var list []corev1.ContainerStatus
	for _, spec := range specs {
		is := stateOf(spec)
		started := is == running
		s := corev1.ContainerStatus{
			Name: spec.Name, Image: spec.Image, ImageID: spec.Image,
			ContainerID: "flyball://" + string(pod.UID) + "/" + spec.Name,
			Ready:       is == running || is == done && isInit(pod, spec.Name), Started: &started,
		}
		since := now
		for _, o := range old {
			if o.Name == spec.Name && o.State.Running != nil {
				since = o.State.Running.StartedAt
			}
			if o.Name == spec.Name && o.State.Terminated != nil {
				now = o.State.Terminated.FinishedAt
				since = o.State.Terminated.StartedAt
			}
		}
		switch is {
		case creating:
			s.ContainerID, s.ImageID = "", ""
			s.State.Waiting = &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}
		case starting, running:
			s.State.Running = &corev1.ContainerStateRunning{StartedAt: since}
		case done:
			s.State.Terminated = &corev1.ContainerStateTerminated{Reason: "Completed", StartedAt: since, FinishedAt: now, ContainerID: s.ContainerID}
		case broken:
			s.State.Terminated = &corev1.ContainerStateTerminated{ExitCode: 1, Reason: "Error", StartedAt: since, FinishedAt: now, ContainerID: s.ContainerID}
		}
		list = append(list, s)
	}
	return list
}

func isInit(pod *corev1.Pod, name string) bool {
	for _, c := range pod.Spec.InitContainers {
		if c.Name == name {
			return true
		}
	}
	return false
}
