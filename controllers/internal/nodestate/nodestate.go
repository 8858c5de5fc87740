// Package nodestate has functions of the state of nodes that controllers share.
package nodestate

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Ready reports whether the node's Ready condition is true.
//
//upstream:pkg/util/node.IsNodeReady
func Ready(node *corev1.Node) bool { return condition(node, corev1.NodeReady) == corev1.ConditionTrue }

// conditionTaints are the taints by condition, each with the state for which a node has it.
//
//upstream:pkg/controller/nodelifecycle.nodeConditionToTaintKeyStatusMap
var conditionTaints = []struct {
	key     string
	applies func(*corev1.Node) bool
}{
	{corev1.TaintNodeNotReady, is(corev1.NodeReady, corev1.ConditionFalse)},
	{corev1.TaintNodeUnreachable, is(corev1.NodeReady, corev1.ConditionUnknown)},
	{corev1.TaintNodeUnschedulable, func(n *corev1.Node) bool { return n.Spec.Unschedulable }},
	{corev1.TaintNodeMemoryPressure, is(corev1.NodeMemoryPressure, corev1.ConditionTrue)},
	{corev1.TaintNodeDiskPressure, is(corev1.NodeDiskPressure, corev1.ConditionTrue)},
	{corev1.TaintNodePIDPressure, is(corev1.NodePIDPressure, corev1.ConditionTrue)},
	{corev1.TaintNodeNetworkUnavailable, is(corev1.NodeNetworkUnavailable, corev1.ConditionTrue)},
}

// Taints returns the taints that a node should have: the taints that users have set, and the ones with the
// effect NoSchedule for its conditions and for spec.unschedulable.
//
//upstream:pkg/controller/nodelifecycle.Controller.doNoScheduleTaintingPass
func Taints(node *corev1.Node) []corev1.Taint {
	taints := slices.DeleteFunc(slices.Clone(node.Spec.Taints), func(t corev1.Taint) bool {
		for _, c := range conditionTaints {
			if t.Key == c.key && t.Effect == corev1.TaintEffectNoSchedule {
				return !c.applies(node)
			}
		}
		return false
	})
	for _, c := range conditionTaints {
		has := func(t corev1.Taint) bool { return t.Key == c.key && t.Effect == corev1.TaintEffectNoSchedule }
		if c.applies(node) && !slices.ContainsFunc(taints, has) {
			taints = append(taints, corev1.Taint{Key: c.key, Effect: corev1.TaintEffectNoSchedule})
		}
	}
	return taints
}

// is returns a function that reports whether a condition has that status.
func is(kind corev1.NodeConditionType, status corev1.ConditionStatus) func(*corev1.Node) bool {
	return func(n *corev1.Node) bool { return condition(n, kind) == status }
}

// condition returns the status of the node's condition of that type, or "" if it has none.
func condition(node *corev1.Node, kind corev1.NodeConditionType) corev1.ConditionStatus {
	if c := Condition(node, kind); c != nil {
		return c.Status
	}
	return ""
}

// Condition returns the node's condition of that type, or nil.
func Condition(node *corev1.Node, kind corev1.NodeConditionType) *corev1.NodeCondition {
	for i := range node.Status.Conditions {
		if node.Status.Conditions[i].Type == kind {
			return &node.Status.Conditions[i]
		}
	}
	return nil
}
