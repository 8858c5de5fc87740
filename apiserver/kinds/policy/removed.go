package policy

import (
	"slices"

	policyv1 "k8s.io/api/policy/v1"
	policyv1beta1 "k8s.io/api/policy/v1beta1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"flyball.dev/apiserver/kinds"
)

// removed are the versions that Kubernetes has removed.
var removed = []kinds.Alias[*policyv1.PodDisruptionBudget]{{Type: &policyv1beta1.PodDisruptionBudget{}}}

// AddRemoved adds PodDisruptionBudget in policy/v1beta1 to a scheme, and its conversions.
//
//upstream:pkg/apis/policy/v1beta1.Convert_v1beta1_PodDisruptionBudget_To_policy_PodDisruptionBudget
//upstream:pkg/apis/policy/v1beta1.Convert_policy_PodDisruptionBudget_To_v1beta1_PodDisruptionBudget
func AddRemoved(s *runtime.Scheme) error {
	s.AddKnownTypes(policyv1beta1.SchemeGroupVersion, &policyv1beta1.PodDisruptionBudget{}, &policyv1beta1.PodDisruptionBudgetList{})
	metav1.AddToGroupVersion(s, policyv1beta1.SchemeGroupVersion)
	return kinds.AddConversions(s, kinds.Infallible(budgetToV1), kinds.Infallible(budgetToV1beta1),
		func(l *policyv1beta1.PodDisruptionBudgetList) (*metav1.ListMeta, *[]policyv1beta1.PodDisruptionBudget) {
			return &l.ListMeta, &l.Items
		},
		func(l *policyv1.PodDisruptionBudgetList) (*metav1.ListMeta, *[]policyv1.PodDisruptionBudget) {
			return &l.ListMeta, &l.Items
		})
}

// emptyMatch is the label of the selectors that stand for what the other version cannot say. An empty selector selects nothing in
// v1beta1, and everything in v1.
const emptyMatch = "pdb.kubernetes.io/deprecated-v1beta1-empty-selector-match"

var (
	matchNoneInV1     = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: emptyMatch, Operator: metav1.LabelSelectorOpExists}}}
	matchAllInV1beta1 = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: emptyMatch, Operator: metav1.LabelSelectorOpDoesNotExist}}}
)

// budgetToV1 converts a budget. The result shares memory with it.
func budgetToV1(in *policyv1beta1.PodDisruptionBudget, out *policyv1.PodDisruptionBudget) {
	s := &in.Spec
	*out = policyv1.PodDisruptionBudget{
		ObjectMeta: in.ObjectMeta,
		Spec: policyv1.PodDisruptionBudgetSpec{MinAvailable: s.MinAvailable, MaxUnavailable: s.MaxUnavailable, Selector: s.Selector,
			UnhealthyPodEvictionPolicy: (*policyv1.UnhealthyPodEvictionPolicyType)(s.UnhealthyPodEvictionPolicy)},
		Status: policyv1.PodDisruptionBudgetStatus(in.Status),
	}
	switch {
	case s.Selector == nil:
	case equality.Semantic.DeepEqual(s.Selector, &metav1.LabelSelector{}):
		out.Spec.Selector = matchNoneInV1.DeepCopy()
	case equality.Semantic.DeepEqual(s.Selector, matchAllInV1beta1):
		out.Spec.Selector = &metav1.LabelSelector{}
	default:
		out.Spec.Selector = withoutEmptyMatch(s.Selector)
	}
}

// budgetToV1beta1 converts a budget. The result shares memory with it.
func budgetToV1beta1(in *policyv1.PodDisruptionBudget, out *policyv1beta1.PodDisruptionBudget) {
	s := &in.Spec
	*out = policyv1beta1.PodDisruptionBudget{
		ObjectMeta: in.ObjectMeta,
		Spec: policyv1beta1.PodDisruptionBudgetSpec{MinAvailable: s.MinAvailable, MaxUnavailable: s.MaxUnavailable, Selector: s.Selector,
			UnhealthyPodEvictionPolicy: (*policyv1beta1.UnhealthyPodEvictionPolicyType)(s.UnhealthyPodEvictionPolicy)},
		Status: policyv1beta1.PodDisruptionBudgetStatus(in.Status),
	}
	switch {
	case s.Selector == nil:
	case equality.Semantic.DeepEqual(s.Selector, matchNoneInV1):
		out.Spec.Selector = &metav1.LabelSelector{}
	case equality.Semantic.DeepEqual(s.Selector, &metav1.LabelSelector{}):
		out.Spec.Selector = matchAllInV1beta1.DeepCopy()
	}
}

// withoutEmptyMatch returns a selector without its requirements of the label emptyMatch, which is not for users.
//
//upstream:pkg/apis/policy.StripPDBV1beta1Label
func withoutEmptyMatch(selector *metav1.LabelSelector) *metav1.LabelSelector {
	isEmptyMatch := func(r metav1.LabelSelectorRequirement) bool { return r.Key == emptyMatch }
	if !slices.ContainsFunc(selector.MatchExpressions, isEmptyMatch) {
		return selector
	}
	s := selector.DeepCopy()
	s.MatchExpressions = slices.DeleteFunc(s.MatchExpressions, isEmptyMatch)
	return s
}
