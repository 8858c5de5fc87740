package podspec

import (
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"

	"flyball.dev/apiserver/kinds/check"
	"flyball.dev/apiserver/kinds/fieldrules"
)

// scheduling checks node selectors, affinities, tolerations and topology spread constraints.
func (r *rules) scheduling(spec check.Field, s *corev1.PodSpec) {
	r.tolerations(spec.Child("tolerations"), s.Tolerations)
	if a := s.Affinity; a != nil {
		at := spec.Child("affinity")
		r.nodeAffinity(at.Child("nodeAffinity"), a.NodeAffinity)
		if p := a.PodAffinity; p != nil {
			r.podAffinity(at.Child("podAffinity"), p.RequiredDuringSchedulingIgnoredDuringExecution,
				p.PreferredDuringSchedulingIgnoredDuringExecution)
		}
		if p := a.PodAntiAffinity; p != nil {
			r.podAffinity(at.Child("podAntiAffinity"), p.RequiredDuringSchedulingIgnoredDuringExecution,
				p.PreferredDuringSchedulingIgnoredDuringExecution)
		}
	}
	r.topologySpread(spec.Child("topologySpreadConstraints"), s.TopologySpreadConstraints)
	if s.PreemptionPolicy != nil {
		check.OneOf(spec.Child("preemptionPolicy"), *s.PreemptionPolicy, corev1.PreemptLowerPriority, corev1.PreemptNever)
	}
}

// Tolerations checks the keys, operators, values and effects of tolerations.
func Tolerations(at check.Field, list []corev1.Toleration) { (&rules{}).tolerations(at, list) }

//upstream:pkg/apis/core/validation.ValidateTolerations
//upstream:pkg/apis/core/v1.Validate_Toleration
func (r *rules) tolerations(all check.Field, list []corev1.Toleration) {
	for i := range list {
		at, t := all.Index(i), &list[i]
		if t.Key != "" {
			check.LabelName(at.Child("key"), t.Key)
		} else if t.Operator != corev1.TolerationOpExists {
			at.Child("operator").Invalid(t.Operator, "operator must be Exists when `key` is empty, which means \"match all values and all keys\"")
		}
		if t.TolerationSeconds != nil && t.Effect != corev1.TaintEffectNoExecute {
			at.Child("effect").Invalid(t.Effect, "effect must be 'NoExecute' when `tolerationSeconds` is set")
		}
		r.operator(at, t)
		check.IfSet(at.Child("effect"), t.Effect, TaintEffect)
	}
}

// operator checks the operator of a toleration, and the value for it.
//
//upstream:pkg/apis/core/validation.ValidateTolerations
func (r *rules) operator(toleration check.Field, t *corev1.Toleration) {
	at, value := toleration.Child("operator"), toleration.Child("value")
	switch t.Operator {
	case corev1.TolerationOpEqual, "":
		if bad := validation.IsValidLabelValue(t.Value); len(bad) > 0 {
			at.Invalid(t.Value, strings.Join(bad, ";"))
		}
	case corev1.TolerationOpExists:
		if t.Value != "" {
			at.Invalid(t.Value, "value must be empty when `operator` is 'Exists'")
		}
	case corev1.TolerationOpLt, corev1.TolerationOpGt:
		if !r.comparisons {
			at.NotSupported(t.Operator, string(corev1.TolerationOpEqual), string(corev1.TolerationOpExists),
				string(corev1.TolerationOpLt), string(corev1.TolerationOpGt))
			break
		}
		check.Valid(value, t.Value, content.IsDecimalInteger)
		if _, err := strconv.ParseInt(t.Value, 10, 64); err != nil {
			value.Invalid(t.Value, err.Error())
		}
	default:
		at.NotSupported(t.Operator, string(corev1.TolerationOpEqual), string(corev1.TolerationOpExists))
	}
}

// TaintEffect checks the effect of a taint.
//
//upstream:pkg/apis/core/validation.validateTaintEffect
func TaintEffect(at check.Field, e corev1.TaintEffect) {
	check.OneOf(at, e, corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute)
}

//upstream:pkg/apis/core/validation.validateNodeAffinity
func (r *rules) nodeAffinity(at check.Field, a *corev1.NodeAffinity) {
	if a == nil {
		return
	}
	if s := a.RequiredDuringSchedulingIgnoredDuringExecution; s != nil {
		NodeSelector(at.Child("requiredDuringSchedulingIgnoredDuringExecution"), s, r.anyNodeLabel)
	}
	for i, p := range a.PreferredDuringSchedulingIgnoredDuringExecution {
		item := at.Child("preferredDuringSchedulingIgnoredDuringExecution").Index(i)
		weight(item.Child("weight"), p.Weight)
		nodeSelectorTerm(item.Child("preference"), &p.Preference, true)
	}
}

func weight(at check.Field, n int32) {
	if n < 1 || n > 100 {
		at.Invalid(n, "must be in the range 1-100")
	}
}

// NodeSelector checks a required node selector, with anyValue but for the values of labels.
//
//upstream:pkg/apis/core/validation.ValidateNodeSelector
func NodeSelector(at check.Field, s *corev1.NodeSelector, anyValue bool) {
	terms := at.Child("nodeSelectorTerms")
	if len(s.NodeSelectorTerms) == 0 {
		terms.Required("must have at least one node selector term")
	}
	for i := range s.NodeSelectorTerms {
		nodeSelectorTerm(terms.Index(i), &s.NodeSelectorTerms[i], anyValue)
	}
}

// nodeSelectorTerm checks the label and field requirements of a term.
//
//upstream:pkg/apis/core/validation.ValidateNodeSelectorTerm
//upstream:pkg/apis/core/validation.ValidateNodeFieldSelectorRequirement
func nodeSelectorTerm(term check.Field, t *corev1.NodeSelectorTerm, anyValue bool) {
	for i := range t.MatchExpressions {
		at, r := term.Child("matchExpressions").Index(i), &t.MatchExpressions[i]
		nodeRequirement(at, r)
		check.LabelName(at.Child("key"), r.Key)
		for j, v := range r.Values {
			if !anyValue {
				check.Valid(at.Child("values").Index(j), v, validation.IsValidLabelValue)
			}
		}
	}
	for i := range t.MatchFields {
		at, r := term.Child("matchFields").Index(i), &t.MatchFields[i]
		if r.Key != metav1.ObjectNameField {
			at.Child("key").Invalid(r.Key, "not a valid field selector key")
		} else {
			for j, v := range r.Values {
				check.DNSName(at.Child("values").Index(j), v)
			}
		}
		if r.Operator != corev1.NodeSelectorOpIn && r.Operator != corev1.NodeSelectorOpNotIn {
			at.Child("operator").Invalid(r.Operator, "not a valid selector operator")
		} else if len(r.Values) != 1 {
			at.Child("values").Required("must be only one value when `operator` is 'In' or 'NotIn' for node field selector")
		}
	}
}

//upstream:pkg/apis/core/validation.ValidateNodeSelectorRequirement
func nodeRequirement(at check.Field, r *corev1.NodeSelectorRequirement) {
	switch values := at.Child("values"); r.Operator {
	case corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn:
		if len(r.Values) == 0 {
			values.Required("must be specified when `operator` is 'In' or 'NotIn'")
		}
	case corev1.NodeSelectorOpExists, corev1.NodeSelectorOpDoesNotExist:
		check.Forbid(values, len(r.Values) > 0, "may not be specified when `operator` is 'Exists' or 'DoesNotExist'")
	case corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt:
		if len(r.Values) != 1 {
			values.Required("must be specified single value when `operator` is 'Lt' or 'Gt'")
		}
	default:
		at.Child("operator").Invalid(r.Operator, "not a valid selector operator")
	}
}

//upstream:pkg/apis/core/validation.validatePodAffinity
//upstream:pkg/apis/core/validation.validatePodAntiAffinity
func (r *rules) podAffinity(at check.Field, must []corev1.PodAffinityTerm, prefer []corev1.WeightedPodAffinityTerm) {
	for i := range must {
		r.podAffinityTerm(at.Child("requiredDuringSchedulingIgnoredDuringExecution").Index(i), &must[i])
	}
	for i := range prefer {
		item := at.Child("preferredDuringSchedulingIgnoredDuringExecution").Index(i)
		weight(item.Child("weight"), prefer[i].Weight)
		r.podAffinityTerm(item.Child("podAffinityTerm"), &prefer[i].PodAffinityTerm)
	}
}

//upstream:pkg/apis/core/validation.validatePodAffinityTerm
func (r *rules) podAffinityTerm(at check.Field, t *corev1.PodAffinityTerm) {
	termSelectors(at, t, r.anySelector)
	for _, n := range t.Namespaces {
		check.Messages(at.Child("namespace"), n, fieldrules.NameIsLabel(n, false))
	}
	labelKeys(at, t.MatchLabelKeys, t.MismatchLabelKeys, t.LabelSelector)
	if t.TopologyKey == "" {
		at.Child("topologyKey").Required("can not be empty")
	}
	check.LabelName(at.Child("topologyKey"), t.TopologyKey)
}

// termSelectors checks the selectors of a term, with anyValue but for the values of labels.
//
//upstream:pkg/apis/core/validation.ValidatePodAffinityTermSelector
func termSelectors(at check.Field, t *corev1.PodAffinityTerm, anyValue bool) {
	selector(at.Child("labelSelector"), t.LabelSelector, anyValue)
	selector(at.Child("namespaceSelector"), t.NamespaceSelector, anyValue)
}

// selector checks a selector, which may be nil, with anyValue but for the values of labels.
func selector(at check.Field, s *metav1.LabelSelector, anyValue bool) {
	if s != nil {
		options := metav1validation.LabelSelectorValidationOptions{AllowInvalidLabelValueInSelector: anyValue}
		at.Report(metav1validation.ValidateLabelSelector(s, options, at.Path.Field())...)
	}
}

// labelKeys checks keys of labels. The selector takes the values of these labels from the pod that it belongs to.
//
//upstream:pkg/apis/core/validation.ValidateMatchLabelKeysAndMismatchLabelKeys
//upstream:pkg/apis/core/validation.validateLabelKeys
func labelKeys(at check.Field, match, mismatch []string, selector *metav1.LabelSelector) {
	for _, list := range [...]struct {
		name string
		keys []string
	}{{"matchLabelKeys", match}, {"mismatchLabelKeys", mismatch}} {
		if len(list.keys) > 0 && selector == nil {
			at.Child(list.name).Forbidden(noSelector)
			continue
		}
		for i, key := range list.keys {
			check.LabelName(at.Child(list.name).Index(i), key)
		}
	}
	selectedTwice(at, match, selector)
	var other fieldrules.Seen[string]
	for _, key := range mismatch {
		other.Add(key)
	}
	for i, key := range match {
		if other.Has(key) {
			at.Child("matchLabelKeys").Index(i).Invalid(key, "exists in both matchLabelKeys and mismatchLabelKeys")
		}
	}
}

// noSelector is the error for keys of labels without the selector that they would narrow.
const noSelector = "must not be specified when labelSelector is not set"

// selectedTwice rejects a key of matchLabelKeys that labelSelector already uses. The requirement that the API server
// adds does not count.
func selectedTwice(at check.Field, keys []string, s *metav1.LabelSelector) {
	if s == nil || len(keys) == 0 {
		return
	}
	selected := map[string]bool{}
	for key := range s.MatchLabels {
		selected[key] = true
	}
	positions := make(map[string]int, len(keys))
	for i, key := range keys {
		positions[key] = i
	}
	for _, e := range s.MatchExpressions {
		if i, ok := positions[e.Key]; ok && selected[e.Key] {
			at.Index(i).Invalid(e.Key, "exists in both matchLabelKeys and labelSelector")
		}
		selected[e.Key] = true
	}
}

// strictSpreadKeys is spreadKeys of an API server that does not add matchLabelKeys to the selector.
//
//upstream:pkg/apis/core/validation.ValidateMatchLabelKeysInTopologySpread
func strictSpreadKeys(constraint check.Field, c *corev1.TopologySpreadConstraint) {
	if len(c.MatchLabelKeys) == 0 {
		return
	}
	selected := map[string]bool{}
	if c.LabelSelector == nil {
		constraint.Child("matchLabelKeys").Forbidden(noSelector)
	} else {
		for key := range c.LabelSelector.MatchLabels {
			selected[key] = true
		}
		for _, e := range c.LabelSelector.MatchExpressions {
			selected[e.Key] = true
		}
	}
	for i, key := range c.MatchLabelKeys {
		at := constraint.Child("matchLabelKeys").Index(i)
		check.LabelName(at, key)
		if selected[key] {
			at.Invalid(key, "exists in both matchLabelKeys and labelSelector")
		}
	}
}

// spreadKeys checks matchLabelKeys of a constraint.
func spreadKeys(at check.Field, c *corev1.TopologySpreadConstraint) {
	labelKeys(at, c.MatchLabelKeys, nil, c.LabelSelector)
}

// topologySpread checks topology spread constraints, and that they are unique.
//
//upstream:pkg/apis/core/validation.validateTopologySpreadConstraints
func (r *rules) topologySpread(all check.Field, list []corev1.TopologySpreadConstraint) {
	if len(list) == 0 {
		return
	}
	type constraint struct {
		key  string
		when corev1.UnsatisfiableConstraintAction
	}
	last := make(map[constraint]int, len(list))
	for i, c := range list {
		last[constraint{c.TopologyKey, c.WhenUnsatisfiable}] = i
	}
	for i := range list {
		at, c := all.Index(i), &list[i]
		check.Positive(at.Child("maxSkew"), c.MaxSkew)
		if c.TopologyKey == "" {
			at.Child("topologyKey").Required("can not be empty")
		}
		check.Supported(at.Child("whenUnsatisfiable"), c.WhenUnsatisfiable, corev1.DoNotSchedule, corev1.ScheduleAnyway)
		if i < last[constraint{c.TopologyKey, c.WhenUnsatisfiable}] {
			at.Child("{topologyKey, whenUnsatisfiable}").Duplicate("{" + c.TopologyKey + ", " + string(c.WhenUnsatisfiable) + "}")
		}
		if r.strictSpread {
			strictSpreadKeys(at, c)
		} else {
			spreadKeys(at, c)
		}
		check.Optional(at.Child("minDomains"), c.MinDomains, check.Positive)
		if c.MinDomains != nil && c.WhenUnsatisfiable != corev1.DoNotSchedule {
			at.Child("minDomains").Invalidf(*c.MinDomains, "can only use minDomains if whenUnsatisfiable=DoNotSchedule, not %s", c.WhenUnsatisfiable)
		}
		check.OptionalOneOf(at.Child("nodeAffinityPolicy"), c.NodeAffinityPolicy,
			corev1.NodeInclusionPolicyHonor, corev1.NodeInclusionPolicyIgnore)
		check.OptionalOneOf(at.Child("nodeTaintsPolicy"), c.NodeTaintsPolicy,
			corev1.NodeInclusionPolicyHonor, corev1.NodeInclusionPolicyIgnore)
		if !r.anySpread {
			check.LabelSelector(at.Child("labelSelector"), c.LabelSelector)
		}
	}
}
