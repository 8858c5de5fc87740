package nodelifecycle

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// evictingTaint returns the key of the taint that evicts the pods of a node by its condition Ready, or "".
//
//upstream:pkg/controller/nodelifecycle.Controller.processTaintBaseEviction
func evictingTaint(node *corev1.Node) string {
	c := condition(node)
	switch {
	case c == nil || c.Status == corev1.ConditionTrue:
		return ""
	case c.Status == corev1.ConditionUnknown:
		return corev1.TaintNodeUnreachable
	}
	return corev1.TaintNodeNotReady
}

// opposite returns the key of the other taint that evicts pods.
func opposite(key string) string {
	if key == corev1.TaintNodeNotReady {
		return corev1.TaintNodeUnreachable
	}
	return corev1.TaintNodeNotReady
}

// hasTaint reports whether there is a taint with a key that evicts pods.
func hasTaint(taints []corev1.Taint, key string) bool {
	return slices.ContainsFunc(taints, func(t corev1.Taint) bool { return t.Key == key && t.Effect == corev1.TaintEffectNoExecute })
}

// setEvictingTaint returns taints with only one of the taints that evict pods, or, if key is "", with none. A taint that replaces the
// other one has a new time, also if the node had both.
//
//upstream:pkg/controller/nodelifecycle.Controller.doNoExecuteTaintingPass
//upstream:pkg/controller/nodelifecycle.Controller.markNodeAsReachable
func setEvictingTaint(taints []corev1.Taint, key string, now time.Time) []corev1.Taint {
	add := corev1.Taint{Key: key, Effect: corev1.TaintEffectNoExecute}
	keep := key != "" && hasTaint(taints, key)
	if key != "" && hasTaint(taints, opposite(key)) {
		keep, add.TimeAdded = false, &metav1.Time{Time: now}
	}
	taints = slices.DeleteFunc(taints, func(t corev1.Taint) bool {
		evicts := t.Key == corev1.TaintNodeNotReady || t.Key == corev1.TaintNodeUnreachable
		return evicts && t.Effect == corev1.TaintEffectNoExecute && !(keep && t.Key == key)
	})
	if key != "" && !keep {
		taints = append(taints, add)
	}
	return taints
}

// withTimes sets the time of the taints that a node does not have yet.
//
//upstream:pkg/controller/util/node.SwapNodeControllerTaint
func withTimes(taints, old []corev1.Taint, now time.Time) []corev1.Taint {
	for i := range taints {
		if !slices.ContainsFunc(old, func(t corev1.Taint) bool { return t.MatchTaint(&taints[i]) }) {
			taints[i].TimeAdded = &metav1.Time{Time: now}
		}
	}
	return taints
}
