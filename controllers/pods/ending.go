package pods

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"flyball.dev/controllers/internal/podstate"
	"flyball.dev/controllers/pods/sandbox"
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
	eviction        bool
}

// until returns the end of a pod that has to end at a limit at the latest, because the pod is deleted meanwhile. The deletion can only
// shorten the grace period, and the reason stays.
//
//upstream:pkg/kubelet.calculateEffectiveGracePeriod
func (e ending) until(limit time.Time) ending {
	e.grace = min(e.grace, limit.Sub(e.since))
	return e
}

// end returns the next step of a pod that ends: its containers are stopped, and then its status is final.
//
//upstream:pkg/kubelet.Kubelet.SyncTerminatingPod
func end(c *containers, why ending) step {
	s := *c.pod.Status.DeepCopy()
	s.ObservedGeneration = c.pod.Generation
	since, limit := why.since, why.since.Add(why.grace)
	if at := completedAt(c.pod, &s); completed(c.pod, &s) && !at.IsZero() && at.Before(since) {
		since = at // the sidecars stop already, and a later end can only shorten that
		if earlier := at.Add(gracePeriod(c.pod)); earlier.Before(limit) {
			limit = earlier
		}
	}
	c.stopAll(&s, since, limit)
	running := c.live("") || anyRuns(&s)
	next := step{actions: actions{after: c.after, running: c.running, killing: c.killing, hooks: c.hooks}, ending: &why}
	if running {
		grace := max(why.since.Add(why.grace).Sub(c.now.Time), 0) // also for those that end by script
		next.stopPod = &grace
		c.setReady(&s)
	} else {
		c.finish(&s, why)
		next.ended, next.frees = true, true
	}
	if !equality.Semantic.DeepEqual(s, c.pod.Status) {
		if why.eviction {
			podstate.SetCondition(&s, disruption(c.pod, why.message, c.now))
		}
		next.status = &s
	}
	return next
}

// complete stops the sidecars and the ephemeral containers of a pod when its other containers have ended for good. Their
// processes are stopped once the written status says that, as nothing starts again after it.
//
//upstream:pkg/kubelet/kuberuntime.kubeGenericRuntimeManager.computePodActions
//upstream:pkg/kubelet/kuberuntime.kubeGenericRuntimeManager.computeInitContainerActions
func (c *containers) complete(s *corev1.PodStatus) {
	c.start, c.stop = nil, nil
	for i := range s.InitContainerStatuses {
		status := &s.InitContainerStatuses[i]
		spec := podstate.Container(&c.pod.Spec, status.Name)
		if old := find(c.pod.Status.InitContainerStatuses, status.Name); podstate.IsSidecar(spec) && hasRun(old) {
			*status = old // it does not restart in the step that notices the end of the others
		}
	}
	if c.live("") && !completed(c.pod, &c.pod.Status) {
		return
	}
	since, grace := completedAt(c.pod, s), gracePeriod(c.pod)
	c.stopAll(s, since, since.Add(grace))
	if c.live("") || anyRuns(s) {
		c.stopPod = &grace
	}
}

// completedAt returns when the containers besides sidecars of a pod that has [completed] have ended.
func completedAt(pod *corev1.Pod, s *corev1.PodStatus) (at time.Time) {
	for spec, status := range statusesOf(pod, s) {
		if isMain(pod, spec.Name) || hasFailed(spec, s.InitContainerStatuses) {
			at = later(at, status.State.Terminated)
		}
	}
	return at
}

// later returns the end of a container if it is later than a time, and otherwise that time.
func later(at time.Time, end *corev1.ContainerStateTerminated) time.Time {
	if end != nil && end.FinishedAt.After(at) {
		return end.FinishedAt.Time
	}
	return at
}

// stopAll stops all containers of a pod. A sidecar stops after the main containers and after the sidecars behind it, or at the
// limit.
//
//upstream:pkg/kubelet/kuberuntime.kubeGenericRuntimeManager.killContainersWithSyncResult
//upstream:pkg/kubelet/kuberuntime.newTerminationOrdering
func (c *containers) stopAll(s *corev1.PodStatus, since, limit time.Time) {
	for spec, status := range statusesOf(c.pod, s) {
		if roleOf(c.pod, spec) != sidecarRole {
			*status = c.stopped(spec, *status, since, since, limit)
		}
	}
	turn, wait := since, false
	await := func(status *corev1.ContainerStatus) {
		turn = later(turn, status.State.Terminated)
		wait = wait || status.State.Running != nil || c.live(status.Name)
	}
	for i := range s.ContainerStatuses {
		await(&s.ContainerStatuses[i])
	}
	for i := len(s.InitContainerStatuses) - 1; i >= 0; i-- {
		status := &s.InitContainerStatuses[i]
		spec := podstate.Container(&c.pod.Spec, status.Name)
		if spec == nil || !podstate.IsSidecar(spec) {
			continue
		}
		if wait || turn.After(limit) {
			turn = limit
		}
		*status = c.stopped(spec, *status, since, turn, limit)
		await(status)
	}
}

// stopped returns the status of a container that is stopped with its pod at some time, gets SIGTERM when it has its turn, and is killed
// at the limit. A container that has ended by itself before keeps its end. A container that waits for its hook postStart is stopped too.
func (c *containers) stopped(spec *corev1.Container, s corev1.ContainerStatus, since, turn, limit time.Time) corev1.ContainerStatus {
	if c.runOf(s.Name, s.RestartCount+1) != nil {
		s = c.startedAgain(s)
	}
	r := c.runOf(s.Name, s.RestartCount)
	switch {
	case s.State.Terminated != nil, crashed(&s), postStartFailed(&s), s.State.Running == nil && r == nil:
		return s
	case r != nil:
		return c.stoppedRun(spec, s, r)
	}
	start := s.State.Running.StartedAt
	term := c.terminatedAt(spec, s.RestartCount, since, limit)
	if turn.After(term) {
		term = turn
	}
	e := c.ownEnd(spec, &s, term)
	if e == nil {
		c.killing = append(c.killing, s.Name)
		if start.After(term) {
			term = start.Time // an earlier status was not written
		}
		e = c.scriptedStop(spec, term, limit)
	}
	if e.at.After(c.now.Time) {
		c.until(e.at.Sub(c.now.Time))
		c.running = append(c.running, s.Name)
		return s
	}
	return c.ended(s, e, start)
}

// startedAgain returns the status of a container with a restart that its status does not show, as its hook postStart has not returned.
func (c *containers) startedAgain(s corev1.ContainerStatus) corev1.ContainerStatus {
	r := c.runOf(s.Name, s.RestartCount)
	switch {
	case s.State.Terminated != nil:
		s.LastTerminationState = s.State
	case s.State.Running != nil && r != nil && r.End != nil:
		end := c.terminated(&s, pointOf(r).end, s.State.Running.StartedAt)
		s.LastTerminationState = corev1.ContainerState{Terminated: &end}
	}
	s.RestartCount++
	s.Ready, s.Started = false, startedOf(&s, false)
	s.State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: c.initialReason()}}
	return s
}

// stoppedRun returns the status of a container with a process that is stopped.
func (c *containers) stoppedRun(spec *corev1.Container, s corev1.ContainerStatus, r *sandbox.Run) corev1.ContainerStatus {
	p := pointOf(r)
	switch {
	case p.end != nil && s.State.Running == nil:
		c.setID(&s)
		s.ImageID = spec.Image
		return c.ended(s, p.end, metav1.NewTime(p.startedAt.Truncate(time.Second)))
	case p.end != nil:
		return c.ended(s, p.end, s.State.Running.StartedAt)
	case s.State.Running != nil:
		s.Ready, s.Started = p.ready && s.Started != nil && roleOf(c.pod, spec) != initRole, startedOf(&s, p.started)
	}
	c.killing = append(c.killing, s.Name)
	return s
}

// ended returns the status of a container after the end of its run.
func (c *containers) ended(s corev1.ContainerStatus, e *runEnd, startedAt metav1.Time) corev1.ContainerStatus {
	t := c.terminated(&s, e, startedAt)
	s.State = corev1.ContainerState{Terminated: &t}
	s.Ready, s.Started = false, startedOf(&s, false)
	return s
}

// ownEnd returns the end of a container without a process that has ended by itself until some second, or nil.
func (c *containers) ownEnd(spec *corev1.Container, s *corev1.ContainerStatus, until time.Time) *runEnd {
	e := c.at(spec, roleOf(c.pod, spec), s.RestartCount, s.State.Running.StartedAt.Time, c.now.Time).end
	if e == nil || e.at.Truncate(time.Second).After(until) {
		return nil
	}
	return e
}

// hook is a hook preStop of a container without a process that is to be executed.
type hook struct {
	runKey
	deadline time.Time
}

// terminatedAt returns when a container without a process gets SIGTERM that is stopped at some time: at the end of its hook preStop,
// or at the limit.
//
//upstream:pkg/kubelet/kuberuntime.kubeGenericRuntimeManager.executePreStopHook
func (c *containers) terminatedAt(spec *corev1.Container, number int32, since, limit time.Time) time.Time {
	if spec.Lifecycle == nil || spec.Lifecycle.PreStop == nil || !since.Before(limit) {
		return since
	}
	at := limit
	state, executed := c.preStops[spec.Name]
	switch sleep := spec.Lifecycle.PreStop.Sleep; {
	case sleep != nil:
		at = since.Add(time.Duration(sleep.Seconds) * time.Second)
	case !executed:
		return since
	case state.Started && state.Number == number && !state.End.IsZero():
		at = state.End
	default:
		c.hooks = append(c.hooks, hook{runKey{spec.Name, number}, limit})
	}
	if at.After(limit) {
		return limit
	}
	return at
}

// scriptedStop returns the end of a container without a process that is stopped at some time, and killed at the limit or after
// the minimum grace period. It ends at once if no script says otherwise.
//
//upstream:pkg/kubelet/kuberuntime.kubeGenericRuntimeManager.killContainer
func (c *containers) scriptedStop(spec *corev1.Container, since, limit time.Time) *runEnd {
	script := c.script.container(c.pod, spec)
	if script == nil || script.Stop == nil {
		return &runEnd{exitCode: exitTerminated, at: since}
	}
	if least := since.Add(sandbox.MinGrace); least.After(limit) {
		limit = least
	}
	if at := since.Add(script.Stop.After.Duration); !at.After(limit) {
		return &runEnd{exitCode: script.Stop.Code, at: at}
	}
	return &runEnd{exitCode: exitKilled, at: limit}
}

// anyRuns reports whether a container of a pod runs.
func anyRuns(s *corev1.PodStatus) bool {
	return slices.ContainsFunc(allContainers(s), func(c corev1.ContainerStatus) bool { return c.State.Running != nil })
}

// startedOf returns the field Started of a container: ephemeral containers have none.
func startedOf(s *corev1.ContainerStatus, started bool) *bool {
	if s.Started == nil {
		return nil
	}
	return &started
}

// finish makes the status of a pod without running containers final. In a pod that is deleted, a container that waited for
// its restart does not wait any more.
//
//upstream:pkg/kubelet.Kubelet.SyncTerminatedPod
func (c *containers) finish(s *corev1.PodStatus, why ending) {
	for spec, status := range statusesOf(c.pod, s) {
		if c.pod.DeletionTimestamp != nil && status.State.Terminated == nil && status.LastTerminationState.Terminated != nil {
			status.State, status.LastTerminationState = status.LastTerminationState, corev1.ContainerState{}
		}
		succeeded := status.State.Terminated != nil && status.State.Terminated.ExitCode == 0
		status.Ready = succeeded && roleOf(c.pod, spec) == initRole
		status.Started = startedOf(status, false)
	}
	s.Phase = c.lastPhase(s)
	if why.reason != "" {
		s.Phase, s.Reason, s.Message = corev1.PodFailed, why.reason, why.message
	}
	c.setReady(s)
	if s.Phase == corev1.PodPending {
		s.Phase = corev1.PodFailed // its conditions stay
	}
	c.settle(s)
	c.setCondition(s, corev1.PodReadyToStartContainers, false, podSandboxNotReady, "pod sandbox is not ready")
	kind, ok, reason, message := initializedCondition(c.pod, s)
	c.setCondition(s, kind, ok, reason, message)
	c.setAllRestarting(s)
	c.setResize(s, "", true)
}

// lastPhase returns the phase of a pod without running containers. The pod is Pending if a container has not started, except after
// an init container that has failed for good.
//
//upstream:pkg/kubelet.getPhase
func (c *containers) lastPhase(s *corev1.PodStatus) corev1.PodPhase {
	waits, failed := len(s.ContainerStatuses) == 0, false
	for spec, status := range statusesOf(c.pod, s) {
		as, end := roleOf(c.pod, spec), status.State.Terminated
		switch {
		case as == ephemeralRole:
		case end == nil:
			waits = waits || status.LastTerminationState.Terminated == nil
		case as == initRole && end.ExitCode != 0 && !restarts(c.pod, spec, end.ExitCode):
			return corev1.PodFailed
		case as == mainRole:
			failed = failed || end.ExitCode != 0
		}
	}
	switch {
	case waits:
		return corev1.PodPending
	case failed:
		return corev1.PodFailed
	default:
		return corev1.PodSucceeded
	}
}

// settle sets the states of the containers that wait in a pod that has ended. A container that may have run has failed. The
// main containers of a pod that was not initialized go on waiting, and so do the init containers that had no turn and the
// ephemeral containers.
//
//upstream:pkg/kubelet/status.manager.TerminatePod
//upstream:pkg/kubelet/status.initializedContainers
func (c *containers) settle(s *corev1.PodStatus) {
	lost := func(list []corev1.ContainerStatus) {
		for i := range list {
			if list[i].State.Terminated == nil {
				list[i].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: exitKilled,
					Reason: statusUnknownReason, Message: "The container could not be located when the pod was terminated"}}
			}
		}
	}
	if c.hasInitialized() {
		lost(s.ContainerStatuses)
	}
	turns := len(s.InitContainerStatuses)
	for turns > 1 && !hasRun(s.InitContainerStatuses[turns-1]) {
		turns--
	}
	lost(s.InitContainerStatuses[:turns])
}

// hasInitialized reports whether a pod has been initialized.
//
//upstream:pkg/kubelet/status.hasPodInitialized
func (c *containers) hasInitialized() bool {
	was := podstate.Condition(c.pod, corev1.PodInitialized)
	return len(c.pod.Spec.InitContainers) == 0 || was != nil && was.Status == corev1.ConditionTrue ||
		slices.ContainsFunc(c.pod.Status.ContainerStatuses, hasRun)
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

// allContainers returns the statuses of all containers of a pod.
func allContainers(s *corev1.PodStatus) []corev1.ContainerStatus {
	return slices.Concat(s.InitContainerStatuses, s.ContainerStatuses, s.EphemeralContainerStatuses)
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

// evictionGrace is the grace period of an evicted pod. A scripted eviction is one for a hard threshold of the node's resources, since
// kubelet has no soft thresholds by default; so are the evictions for the limits of local storage.
//
//upstream:pkg/kubelet/eviction.immediateEvictionGracePeriodSeconds
const evictionGrace = time.Second

// eviction returns the end of a pod that its script evicts, or nil.
//
//upstream:pkg/kubelet/eviction.managerImpl.evictPod
func (c *containers) eviction(s *corev1.PodStatus) *ending {
	if c.script == nil || c.script.Evict == nil || s.StartTime == nil {
		return nil
	}
	e := c.script.Evict
	return &ending{since: s.StartTime.Add(jittered(c.pod, e.After, e.Jitter, "evict")), grace: evictionGrace,
		reason: cmp.Or(e.Reason, "Evicted"), message: e.Message, eviction: true}
}

// firstEnd returns the end of a pod by its deadline or its script, whichever is first, or nil.
func (c *containers) firstEnd(s *corev1.PodStatus) *ending {
	why, deadline := c.eviction(s), overdue(c.pod, s)
	if why == nil || deadline != nil && deadline.since.Before(why.since) {
		return deadline
	}
	return why
}

// disruption returns the condition of a pod that its node evicts.
func disruption(pod *corev1.Pod, message string, now metav1.Time) corev1.PodCondition {
	return corev1.PodCondition{
		Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: corev1.PodReasonTerminationByKubelet, Message: message,
		LastTransitionTime: now, ObservedGeneration: pod.Generation,
	}
}
