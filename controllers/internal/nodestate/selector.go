package nodestate

import (
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Required reports whether a node matches the node selector and the required node affinity of a pod.
//
//upstream:k8s.io/component-helpers/scheduling/corev1/nodeaffinity.RequiredNodeAffinity.Match
func Required(selector map[string]string, affinity *corev1.Affinity, node *corev1.Node) bool {
	for k, v := range selector {
		if has, ok := node.Labels[k]; !ok || has != v {
			return false
		}
	}
	if affinity == nil || affinity.NodeAffinity == nil || affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return true
	}
	return Selected(affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution, node)
}

// Selected reports whether a node matches one of the terms of a selector.
//
//upstream:k8s.io/component-helpers/scheduling/corev1/nodeaffinity.NodeSelector.Match
func Selected(s *corev1.NodeSelector, node *corev1.Node) bool {
	return slices.ContainsFunc(s.NodeSelectorTerms, func(t corev1.NodeSelectorTerm) bool { return MatchesTerm(t, node) })
}

// MatchesTerm reports whether a node matches all requirements of a term. A term without requirements
// matches nothing.
//
//upstream:k8s.io/component-helpers/scheduling/corev1/nodeaffinity.nodeSelectorTerm.match
func MatchesTerm(t corev1.NodeSelectorTerm, node *corev1.Node) bool {
	for _, r := range t.MatchExpressions {
		value, ok := node.Labels[r.Key]
		if !holds(r, value, ok) {
			return false
		}
	}
	for _, r := range t.MatchFields {
		if r.Key != metav1.ObjectNameField || !holds(r, node.Name, true) {
			return false
		}
	}
	return len(t.MatchExpressions)+len(t.MatchFields) > 0
}

// holds reports whether a value, which may not exist, matches a requirement.
//
//upstream:k8s.io/apimachinery/pkg/labels.Requirement.Matches
func holds(r corev1.NodeSelectorRequirement, value string, exists bool) bool {
	switch r.Operator {
	case corev1.NodeSelectorOpIn:
		return exists && slices.Contains(r.Values, value)
	case corev1.NodeSelectorOpNotIn:
		return !exists || !slices.Contains(r.Values, value)
	case corev1.NodeSelectorOpExists:
		return exists
	case corev1.NodeSelectorOpDoesNotExist:
		return !exists
	case corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt:
		if !exists || len(r.Values) != 1 {
			return false
		}
		has, err := strconv.ParseInt(value, 10, 64)
		if err != nil {
			return false
		}
		limit, err := strconv.ParseInt(r.Values[0], 10, 64)
		if err != nil {
			return false
		}
		return r.Operator == corev1.NodeSelectorOpGt && has > limit || r.Operator == corev1.NodeSelectorOpLt && has < limit
	}
	return false
}
