package scheduler

import (
	corev1 "k8s.io/api/core/v1"

	"flyball.dev/controllers/internal/nodestate"
)

// affinityMatches reports whether a node matches the pod's node selector and its required node
// affinity.
//
//upstream:k8s.io/component-helpers/scheduling/corev1/nodeaffinity.RequiredNodeAffinity.Match
func affinityMatches(pod *corev1.Pod, node *corev1.Node) bool {
	for k, v := range pod.Spec.NodeSelector {
		if has, ok := node.Labels[k]; !ok || has != v {
			return false
		}
	}
	a := pod.Spec.Affinity
	if a == nil || a.NodeAffinity == nil || a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return true
	}
	return nodestate.Selected(a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution, node)
}
