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

// node is a node with the sum of its pods' requests.
type node struct {
	name         string
	*corev1.Node // nil if it does not exist and pods are bound to it
	taints       []corev1.Taint
	allocatable  amounts
	used         amounts
	pods         int64
}

// set sets the state of the node.
func (n *node) set(object *corev1.Node) {
	n.Node, n.taints, n.allocatable = object, nodestate.Taints(object), amounts{}
	n.allocatable.add(object.Status.Allocatable)
}

// obstacle is a reason why a pod does not fit on a node.
type obstacle struct {
	reason string
	// unresolvable: preemption would not help, as it is so without any other pod.
	unresolvable bool
}

// obstacles returns why a pod with these requests does not fit on a node, or nothing. As in
// kube-scheduler, only the first filter that fails is reported.
func obstacles(pod *corev1.Pod, needs []need, n *node) []obstacle {
	unschedulable := corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}
	switch {
	case n.Spec.Unschedulable && !tolerates(pod, &unschedulable):
		return []obstacle{{"node(s) were unschedulable", true}}
	case slices.ContainsFunc(n.taints, func(t corev1.Taint) bool { return repels(&t) && !tolerates(pod, &t) }):
		return []obstacle{{"node(s) had untolerated taint(s)", true}}
	case !affinityMatches(pod, n.Node):
		return []obstacle{{"node(s) didn't match Pod's node affinity/selector", true}}
	}
	var list []obstacle
	if n.pods+1 > n.allocatable[corev1.ResourcePods] {
		list = append(list, obstacle{"Too many pods", n.allocatable[corev1.ResourcePods] == 0})
	}
	for _, need := range needs {
		if all := n.allocatable[need.name]; need.amount > all-n.used[need.name] {
			list = append(list, obstacle{"Insufficient " + string(need.name), need.amount > all})
		}
	}
	return list
}

func repels(t *corev1.Taint) bool {
	return t.Effect == corev1.TaintEffectNoSchedule || t.Effect == corev1.TaintEffectNoExecute
}

func tolerates(pod *corev1.Pod, t *corev1.Taint) bool {
	return slices.ContainsFunc(pod.Spec.Tolerations, func(o corev1.Toleration) bool {
		return o.ToleratesTaint(klog.Background(), t, true)
	})
}

// choose picks a node for a pod: of those where it fits the preferred one, or else the one with the
// fewest pods. If there is none it says why, in kube-scheduler's words.
func choose(pod *corev1.Pod, needs []need, nodes []*node, preferred string) (_ *node, why string) {
	var best *node
	reasons, preemption := map[string]int{}, map[string]int{}
	for _, n := range nodes {
		found := obstacles(pod, needs, n)
		if len(found) == 0 {
			if best == nil || before(n, best, preferred) {
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
	none := fmt.Sprintf("0/%d nodes are available: ", len(nodes))
	return nil, none + histogram(reasons) + ". no new claims to deallocate, preemption: " + none + histogram(preemption) + "."
}

func before(a, b *node, preferred string) bool {
	if (a.name == preferred) != (b.name == preferred) {
		return a.name == preferred
	}
	return cmp.Or(cmp.Compare(a.pods, b.pods), strings.Compare(a.name, b.name)) < 0
}

func histogram(counts map[string]int) string {
	var list []string
	for what, n := range counts {
		list = append(list, fmt.Sprintf("%d %s", n, what))
	}
	slices.Sort(list)
	return strings.Join(list, ", ")
}
