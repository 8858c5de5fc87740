package daemonset

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"flyball.dev/controllers/internal/nodestate"
)

// fit is the relation of a node to a DaemonSet.
type fit struct {
	run  bool // the node should have a pod
	stay bool // a pod on the node should stay there
}

// fitOf returns the relation of a node to a DaemonSet. The tolerations are the ones of its pods. A taint NoSchedule that the
// pods do not tolerate keeps new pods away, but existing ones may stay.
//
//upstream:pkg/controller/daemon.nodeShouldRunDaemonPod
func fitOf(set *appsv1.DaemonSet, tolerations []corev1.Toleration, node *corev1.Node) fit {
	spec := &set.Spec.Template.Spec
	switch {
	case spec.NodeName != "" && spec.NodeName != node.Name, !nodestate.Required(spec.NodeSelector, spec.Affinity, node):
		return fit{}
	case repels(node, tolerations, corev1.TaintEffectNoExecute):
		return fit{}
	case repels(node, tolerations, corev1.TaintEffectNoSchedule):
		return fit{stay: true}
	}
	return fit{run: true, stay: true}
}

// repels reports whether a node has a taint of an effect without a toleration.
//
//upstream:k8s.io/component-helpers/scheduling/corev1.FindMatchingUntoleratedTaint
func repels(node *corev1.Node, tolerations []corev1.Toleration, effect corev1.TaintEffect) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool {
		return t.Effect == effect && !slices.ContainsFunc(tolerations, func(by corev1.Toleration) bool {
			return by.ToleratesTaint(klog.Background(), &t, false)
		})
	})
}

// tolerated are the taints that all pods of DaemonSets tolerate.
//
//upstream:pkg/controller/daemon/util.AddOrUpdateDaemonPodTolerations
var tolerated = []struct {
	key         string
	effect      corev1.TaintEffect
	hostNetwork bool // only pods in the network of the host
}{
	{corev1.TaintNodeNotReady, corev1.TaintEffectNoExecute, false},
	{corev1.TaintNodeUnreachable, corev1.TaintEffectNoExecute, false},
	{corev1.TaintNodeDiskPressure, corev1.TaintEffectNoSchedule, false},
	{corev1.TaintNodeMemoryPressure, corev1.TaintEffectNoSchedule, false},
	{corev1.TaintNodePIDPressure, corev1.TaintEffectNoSchedule, false},
	{corev1.TaintNodeUnschedulable, corev1.TaintEffectNoSchedule, false},
	{corev1.TaintNodeNetworkUnavailable, corev1.TaintEffectNoSchedule, true},
}

// tolerationsOf returns the tolerations of the pods of a DaemonSet: the tolerations of its template, and tolerations
// for the problems of nodes. The latter replace tolerations for the same taint.
//
//upstream:pkg/controller/daemon.daemonPodTolerations
//upstream:pkg/apis/core/v1/helper.AddOrUpdateTolerationInPodSpec
func tolerationsOf(set *appsv1.DaemonSet) []corev1.Toleration {
	spec := &set.Spec.Template.Spec
	list := slices.Clone(spec.Tolerations)
	for _, t := range tolerated {
		if t.hostNetwork && !spec.HostNetwork {
			continue
		}
		toleration := corev1.Toleration{Key: t.key, Operator: corev1.TolerationOpExists, Effect: t.effect}
		replaced := false
		for i := range list {
			if toleration.MatchToleration(&list[i]) {
				list[i], replaced = toleration, true
			}
		}
		if !replaced {
			list = append(list, toleration)
		}
	}
	return list
}
