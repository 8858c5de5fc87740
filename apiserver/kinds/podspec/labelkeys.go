package podspec

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// MergeLabelKeys adds to the selectors of affinities and topology spread constraints the labels of the pod that their
// matchLabelKeys and mismatchLabelKeys name.
//
//upstream:pkg/registry/core/pod.mutatePodAffinity
//upstream:pkg/registry/core/pod.mutateTopologySpreadConstraints
func MergeLabelKeys(p *corev1.Pod) {
	for i := range p.Spec.TopologySpreadConstraints {
		c := &p.Spec.TopologySpreadConstraints[i]
		mergeKeys(c.LabelSelector, c.MatchLabelKeys, metav1.LabelSelectorOpIn, p.Labels)
	}
	if p.Spec.Affinity == nil {
		return
	}
	if a := p.Spec.Affinity.PodAffinity; a != nil {
		mergeTerms(a.RequiredDuringSchedulingIgnoredDuringExecution, a.PreferredDuringSchedulingIgnoredDuringExecution, p.Labels)
	}
	if a := p.Spec.Affinity.PodAntiAffinity; a != nil {
		mergeTerms(a.RequiredDuringSchedulingIgnoredDuringExecution, a.PreferredDuringSchedulingIgnoredDuringExecution, p.Labels)
	}
}

func mergeTerms(must []corev1.PodAffinityTerm, prefer []corev1.WeightedPodAffinityTerm, labels map[string]string) {
	for i := range must {
		mergeTerm(&must[i], labels)
	}
	for i := range prefer {
		mergeTerm(&prefer[i].PodAffinityTerm, labels)
	}
}

//upstream:pkg/registry/core/pod.applyMatchLabelKeysAndMismatchLabelKeys
func mergeTerm(t *corev1.PodAffinityTerm, labels map[string]string) {
	mergeKeys(t.LabelSelector, t.MatchLabelKeys, metav1.LabelSelectorOpIn, labels)
	mergeKeys(t.LabelSelector, t.MismatchLabelKeys, metav1.LabelSelectorOpNotIn, labels)
}

// mergeKeys adds requirements to a selector. A selector that is nil selects nothing, and stays so.
//
//upstream:pkg/registry/core/pod.applyLabelKeysToLabelSelector
func mergeKeys(s *metav1.LabelSelector, keys []string, operator metav1.LabelSelectorOperator, labels map[string]string) {
	if s == nil {
		return
	}
	for _, key := range keys {
		if value, ok := labels[key]; ok {
			s.MatchExpressions = append(s.MatchExpressions,
				metav1.LabelSelectorRequirement{Key: key, Operator: operator, Values: []string{value}})
		}
	}
}
