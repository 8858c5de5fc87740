package scheduler

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"flyball.dev/controllers/internal/nodestate"
)

// nodeInfo is a node with the sum of the requests of its pods, and their host ports.
//
//upstream:pkg/scheduler/framework.NodeInfo
type nodeInfo struct {
	name         string
	*corev1.Node // nil if it does not exist, although pods are bound to it
	taints       []corev1.Taint
	allocatable  quantities
	used         quantities
	ports        map[hostPort]int // the number of the pods that use each port
	pods         int64
}

// newNodeInfo returns a node without pods, which may not exist.
func newNodeInfo(name string) *nodeInfo {
	return &nodeInfo{name: name, used: quantities{}, ports: map[hostPort]int{}}
}

// set sets the state of the node.
func (n *nodeInfo) set(object *corev1.Node) {
	n.Node, n.taints, n.allocatable = object, nodestate.Taints(object), quantitiesOf(object.Status.Allocatable)
}

// rejection is a reason why a node is not suitable for a pod.
type rejection struct {
	reason string
	// unresolvable is set if preemption would not help, because other pods are not the reason.
	unresolvable bool
}

// filter returns the reasons why a node is not suitable for a pod with these requests, or nil. It returns the reasons
// of the first filter that fails.
//
//upstream:pkg/scheduler/framework/plugins/nodeunschedulable.NodeUnschedulable.Filter
//upstream:pkg/scheduler/framework/plugins/tainttoleration.TaintToleration.Filter
//upstream:pkg/scheduler/framework/plugins/nodeaffinity.NodeAffinity.Filter
//upstream:pkg/scheduler/framework/plugins/nodeports.NodePorts.Filter
//upstream:pkg/scheduler/framework/plugins/noderesources.fitsRequest
func filter(pod *corev1.Pod, needs []request, n *nodeInfo) []rejection {
	unschedulable := corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}
	switch {
	case n.Spec.Unschedulable && !tolerates(pod, &unschedulable):
		return []rejection{{"node(s) were unschedulable", true}}
	case slices.ContainsFunc(n.taints, func(t corev1.Taint) bool { return repels(&t) && !tolerates(pod, &t) }):
		return []rejection{{"node(s) had untolerated taint(s)", true}}
	case !affinityMatches(pod, n.Node):
		return []rejection{{"node(s) didn't match Pod's node affinity/selector", true}}
	case !portsAreFree(pod, n):
		return []rejection{{"node(s) didn't have free ports for the requested pod ports", false}}
	}
	var list []rejection
	if n.pods+1 > n.allocatable[corev1.ResourcePods] {
		list = append(list, rejection{"Too many pods", false})
	}
	for _, need := range needs {
		if all := n.allocatable[need.name]; need.amount > all-n.used[need.name] {
			list = append(list, rejection{"Insufficient " + string(need.name), need.amount > all})
		}
	}
	return list
}

// Unsuitable returns the reasons why a node with some pods is not suitable for another pod, and whether preemption would
// not help. A suitable node has no reasons.
func Unsuitable(pod *corev1.Pod, node *corev1.Node, others []*corev1.Pod) (reasons []string, unresolvable bool) {
	s := newState("")
	s.updateNode(node)
	for _, o := range others {
		s.updatePod(o)
	}
	for _, r := range filter(pod, podRequests(pod), s.nodes[node.Name]) {
		reasons, unresolvable = append(reasons, r.reason), unresolvable || r.unresolvable
	}
	return reasons, unresolvable
}

// repels reports whether pods without a toleration of a taint are not scheduled.
//
//upstream:pkg/scheduler/framework/plugins/helper.DoNotScheduleTaintsFilterFunc
func repels(t *corev1.Taint) bool {
	return t.Effect == corev1.TaintEffectNoSchedule || t.Effect == corev1.TaintEffectNoExecute
}

// tolerates reports whether a pod has a toleration of a taint.
//
//upstream:k8s.io/component-helpers/scheduling/corev1.TolerationsTolerateTaint
func tolerates(pod *corev1.Pod, t *corev1.Taint) bool {
	return slices.ContainsFunc(pod.Spec.Tolerations, func(o corev1.Toleration) bool {
		return o.ToleratesTaint(klog.Background(), t, false)
	})
}

// selectNode selects a suitable node for a pod: the preferred node, or else the node with the fewest pods. If no node
// is suitable, it returns kube-scheduler's message.
//
//upstream:pkg/scheduler.Scheduler.schedulePod
//upstream:pkg/scheduler/framework/preemption.Evaluator.Preempt
func selectNode(pod *corev1.Pod, needs []request, nodes []*nodeInfo, preferred string) (_ *nodeInfo, message string) {
	var best *nodeInfo
	reasons, preemption := map[string]int{}, map[string]int{}
	for _, n := range nodes {
		found := filter(pod, needs, n)
		if len(found) == 0 {
			if best == nil || preferable(n, best, preferred) {
				best = n
			}
			continue
		}
		unresolvable := false
		for _, o := range found {
			reasons[o.reason]++
			unresolvable = unresolvable || o.unresolvable
		}
		if unresolvable {
			preemption["Preemption is not helpful for scheduling"]++
		} else {
			preemption["No preemption victims found for incoming pod"]++
		}
	}
	switch {
	case best != nil:
		return best, ""
	case len(nodes) == 0:
		return nil, "no nodes available to schedule pods"
	}
	return nil, unavailable(len(nodes), reasonHistogram(reasons), reasonHistogram(preemption))
}

// unavailable returns kube-scheduler's message for a pod that fits on no node, with the reasons, and the reasons why
// preemption does not help.
//
//upstream:pkg/scheduler/framework.FitError
func unavailable(nodes int, reasons, preemption string) string {
	none := fmt.Sprintf("0/%d nodes are available: ", nodes)
	return none + reasons + ". no new claims to deallocate, preemption: " + none + preemption + "."
}

// preferable reports whether a is selected rather than b.
func preferable(a, b *nodeInfo, preferred string) bool {
	if (a.name == preferred) != (b.name == preferred) {
		return a.name == preferred
	}
	return cmp.Or(cmp.Compare(a.pods, b.pods), strings.Compare(a.name, b.name)) < 0
}

// reasonHistogram formats the number of nodes for each reason, sorted.
func reasonHistogram(counts map[string]int) string {
	var list []string
	for what, n := range counts {
		list = append(list, fmt.Sprintf("%d %s", n, what))
	}
	slices.Sort(list)
	return strings.Join(list, ", ")
}
