package core

import (
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/apiserver/kinds/columns"
	"flyball.dev/apiserver/kinds/podspec"
)

// podColumns are the columns of pods in a table.
//
//upstream:pkg/printers/internalversion.AddHandlers
var podColumns = []metav1.TableColumnDefinition{
	columns.Column("Ready", "string", "The number of containers that are ready, of all that should be."),
	columns.Column("Status", "string", "What the pod is doing, in one word."),
	columns.Column("Restarts", "string", "How often containers of the pod were started anew, and when that was last."),
	columns.Wide("IP", "string", corev1.PodStatus{}.SwaggerDoc()["podIP"]),
	columns.Wide("Node", "string", corev1.PodSpec{}.SwaggerDoc()["nodeName"]),
	columns.Wide("Nominated Node", "string", corev1.PodStatus{}.SwaggerDoc()["nominatedNodeName"]),
	columns.Wide("Readiness Gates", "string", corev1.PodSpec{}.SwaggerDoc()["readinessGates"]),
}

// podRow returns the cells of a pod in a table.
//
//upstream:pkg/printers/internalversion.printPod
func podRow(p *corev1.Pod) []any {
	v := viewPod(p)
	ip := p.Status.PodIP
	if ip == "" && len(p.Status.PodIPs) > 0 {
		ip = p.Status.PodIPs[0].IP
	}
	return []any{
		fmt.Sprintf("%d/%d", v.ready, v.total), v.status, v.restartCell(),
		columns.OrNone(ip), columns.OrNone(p.Spec.NodeName), columns.OrNone(p.Status.NominatedNodeName), gateCell(p),
	}
}

// podView summarizes the containers of a pod.
type podView struct {
	status       string
	ready, total int
	restarts     int
	lastRestart  metav1.Time
}

// viewPod summarizes the containers of a pod.
//
//upstream:pkg/printers/internalversion.printPod
func viewPod(p *corev1.Pod) podView {
	v := podView{status: string(p.Status.Phase), total: len(p.Spec.Containers)}
	if p.Status.Reason != "" {
		v.status = p.Status.Reason
	}
	if c := podCondition(p, corev1.PodScheduled); c != nil && c.Reason == corev1.PodReasonSchedulingGated {
		v.status = corev1.PodReasonSchedulingGated
	}
	if initializing := v.addInit(p); !initializing || initialized(p) {
		v.addContainers(p)
	}
	if p.DeletionTimestamp != nil {
		if p.Status.Reason == "NodeLost" {
			v.status = "Unknown"
		} else if p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed {
			v.status = "Terminating"
		}
	}
	return v
}

// addInit adds the init containers, and reports whether one of them has not finished.
//
//upstream:pkg/printers/internalversion.printPod
func (v *podView) addInit(p *corev1.Pod) bool {
	sidecars := map[string]bool{}
	for i := range p.Spec.InitContainers {
		if c := &p.Spec.InitContainers[i]; podspec.Sidecar(c) {
			sidecars[c.Name] = true
			v.total++
		}
	}
	initializing := false
	sidecarRestarts, sidecarLast := 0, metav1.Time{}
	for i := range p.Status.InitContainerStatuses {
		c := &p.Status.InitContainerStatuses[i]
		v.countRestarts(c)
		if sidecars[c.Name] {
			sidecarRestarts += int(c.RestartCount)
			sidecarLast = later(sidecarLast, lastTermination(c))
		}
		switch {
		case c.State.Terminated != nil && c.State.Terminated.ExitCode == 0:
		case sidecars[c.Name] && c.Started != nil && *c.Started:
			if c.Ready {
				v.ready++
			}
		default:
			v.status, initializing = initStatus(c, i, len(p.Spec.InitContainers)), true
		}
		if initializing { // the containers after it have not started
			break
		}
	}
	if !initializing || initialized(p) {
		v.restarts, v.lastRestart = sidecarRestarts, sidecarLast
	}
	return initializing
}

// initStatus returns the status of a pod with the unfinished init container i of n.
//
//upstream:pkg/printers/internalversion.printPod
func initStatus(c *corev1.ContainerStatus, i, n int) string {
	switch t, w := c.State.Terminated, c.State.Waiting; {
	case t != nil:
		return "Init:" + terminationCell(t)
	case w != nil && w.Reason != "" && w.Reason != "PodInitializing":
		return "Init:" + w.Reason
	default:
		return fmt.Sprintf("Init:%d/%d", i, n)
	}
}

// addContainers adds the containers. The first container with a reason gives the pod its status. If the
// status is Completed, a failure of another container takes precedence.
//
//upstream:pkg/printers/internalversion.printPod
//upstream:pkg/printers/internalversion.hasPodReadyCondition
func (v *podView) addContainers(p *corev1.Pod) {
	running, failure := false, ""
	for i := len(p.Status.ContainerStatuses) - 1; i >= 0; i-- {
		c := &p.Status.ContainerStatuses[i]
		v.countRestarts(c)
		switch s := c.State; {
		case s.Waiting != nil && s.Waiting.Reason != "":
			v.status = s.Waiting.Reason
		case s.Terminated != nil:
			v.status = terminationCell(s.Terminated)
			if s.Terminated.ExitCode != 0 {
				failure = v.status
			}
		case c.Ready && s.Running != nil:
			running = true
			v.ready++
		}
	}
	if v.status == "Completed" {
		ready := podCondition(p, corev1.PodReady)
		switch {
		case running && ready != nil && ready.Status == corev1.ConditionTrue:
			v.status = "Running"
		case failure != "":
			v.status = failure
		case running:
			v.status = "NotReady"
		}
	}
}

// terminationCell returns the reason of a termination, or else the signal or the exit code.
//
//upstream:pkg/printers/internalversion.printPod
func terminationCell(t *corev1.ContainerStateTerminated) string {
	switch {
	case t.Reason != "":
		return t.Reason
	case t.Signal != 0:
		return fmt.Sprintf("Signal:%d", t.Signal)
	default:
		return fmt.Sprintf("ExitCode:%d", t.ExitCode)
	}
}

func (v *podView) countRestarts(c *corev1.ContainerStatus) {
	v.restarts += int(c.RestartCount)
	v.lastRestart = later(v.lastRestart, lastTermination(c))
}

func lastTermination(c *corev1.ContainerStatus) metav1.Time {
	if t := c.LastTerminationState.Terminated; t != nil {
		return t.FinishedAt
	}
	return metav1.Time{}
}

func later(a, b metav1.Time) metav1.Time {
	if a.Before(&b) {
		return b
	}
	return a
}

// restartCell returns the number of restarts, and the time since the last restart.
//
//upstream:pkg/printers/internalversion.printPod
func (v *podView) restartCell() string {
	if v.restarts == 0 || v.lastRestart.IsZero() {
		return strconv.Itoa(v.restarts)
	}
	return fmt.Sprintf("%d (%s ago)", v.restarts, columns.Age(v.lastRestart))
}

// initialized reports whether the condition Initialized of the pod is true.
//
//upstream:pkg/printers/internalversion.isPodInitializedConditionTrue
func initialized(p *corev1.Pod) bool {
	c := podCondition(p, corev1.PodInitialized)
	return c != nil && c.Status == corev1.ConditionTrue
}

// podCondition returns the first condition of a type, or nil.
//
//upstream:pkg/api/pod.GetPodCondition
func podCondition(p *corev1.Pod, kind corev1.PodConditionType) *corev1.PodCondition {
	for i := range p.Status.Conditions {
		if c := &p.Status.Conditions[i]; c.Type == kind {
			return c
		}
	}
	return nil
}

// gateCell returns the number of true readiness gates, of all gates.
//
//upstream:pkg/printers/internalversion.printPod
func gateCell(p *corev1.Pod) string {
	if len(p.Spec.ReadinessGates) == 0 {
		return columns.None
	}
	open := 0
	for _, g := range p.Spec.ReadinessGates {
		if c := podCondition(p, g.ConditionType); c != nil && c.Status == corev1.ConditionTrue {
			open++
		}
	}
	return fmt.Sprintf("%d/%d", open, len(p.Spec.ReadinessGates))
}
