package framework

import corev1 "k8s.io/api/core/v1"

// nodeUnschedulable rejects nodes that are cordoned, unless the pod tolerates that.
//
//upstream:pkg/scheduler/framework/plugins/nodeunschedulable.NodeUnschedulable.Filter
type nodeUnschedulable struct{}

var cordoned = unresolvable("NodeUnschedulable", "node(s) were unschedulable")

func (*nodeUnschedulable) name() string                     { return "NodeUnschedulable" }
func (*nodeUnschedulable) preFilter(*cycle) preFilterResult { return preFilterResult{} }

func (*nodeUnschedulable) filter(c *cycle, n *Node) *Status {
	if n.Spec.Unschedulable && !tolerates(c.pod.Spec.Tolerations, &corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}) {
		return cordoned
	}
	return nil
}
