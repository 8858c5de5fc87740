package framework

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
)

// taintToleration rejects nodes with taints that the pod does not tolerate, and prefers nodes with few taints that only say
// what they prefer.
//
//upstream:pkg/scheduler/framework/plugins/tainttoleration.TaintToleration.Filter
//upstream:pkg/scheduler/framework/plugins/tainttoleration.TaintToleration.Score
type taintToleration struct {
	preferred []corev1.Toleration // the tolerations of the effect PreferNoSchedule
}

var tainted = unresolvable("TaintToleration", "node(s) had untolerated taint(s)")

func (*taintToleration) name() string                     { return "TaintToleration" }
func (*taintToleration) weight() int64                    { return 3 }
func (*taintToleration) preFilter(*cycle) preFilterResult { return preFilterResult{} }

func (*taintToleration) filter(c *cycle, n *Node) *Status {
	if repelled(c.pod.Spec.Tolerations, n.taints) {
		return tainted
	}
	return nil
}

//upstream:pkg/scheduler/framework/plugins/tainttoleration.TaintToleration.PreScore
func (t *taintToleration) preScore(c *cycle, _ []*Node) (skip bool) {
	t.preferred = slices.DeleteFunc(slices.Clone(c.pod.Spec.Tolerations), func(o corev1.Toleration) bool {
		return o.Effect != "" && o.Effect != corev1.TaintEffectPreferNoSchedule
	})
	return false
}

func (t *taintToleration) score(_ *cycle, n *Node) (count int64) {
	for i := range n.taints {
		if n.taints[i].Effect == corev1.TaintEffectPreferNoSchedule && !tolerates(t.preferred, &n.taints[i]) {
			count++
		}
	}
	return count
}

func (*taintToleration) normalize(scores []int64) { normalizeByMax(scores, true) }

// repelled reports whether pods with some tolerations are not scheduled because of one of the taints.
//
//upstream:pkg/scheduler/framework/plugins/helper.DoNotScheduleTaintsFilterFunc
//upstream:k8s.io/component-helpers/scheduling/corev1.FindMatchingUntoleratedTaint
func repelled(tolerations []corev1.Toleration, taints []corev1.Taint) bool {
	for i := range taints {
		t := &taints[i]
		if (t.Effect == corev1.TaintEffectNoSchedule || t.Effect == corev1.TaintEffectNoExecute) && !tolerates(tolerations, t) {
			return true
		}
	}
	return false
}

// tolerates reports whether one of the tolerations is of a taint.
//
//upstream:k8s.io/component-helpers/scheduling/corev1.TolerationsTolerateTaint
func tolerates(tolerations []corev1.Toleration, t *corev1.Taint) bool {
	return slices.ContainsFunc(tolerations, func(o corev1.Toleration) bool { return o.ToleratesTaint(klog.Background(), t, false) })
}
