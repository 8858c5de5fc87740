package podspec

import (
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"flyball.dev/apiserver/kinds/fieldrules"
)

// scheduling checks node selectors, affinities, tolerations and topology spread constraints.
func (r *rules) scheduling(s *corev1.PodSpec, fldPath *fieldrules.Path) field.ErrorList {
	tolerations := fldPath.Child("tolerations")
	errs := r.tolerations(s.Tolerations, &tolerations)
	if a := s.Affinity; a != nil {
		at := fldPath.Child("affinity")
		errs = append(errs, r.nodeAffinity(a.NodeAffinity, &at)...)
		if p := a.PodAffinity; p != nil {
			errs = append(errs, r.podAffinity(p.RequiredDuringSchedulingIgnoredDuringExecution,
				p.PreferredDuringSchedulingIgnoredDuringExecution, &at, "podAffinity")...)
		}
		if p := a.PodAntiAffinity; p != nil {
			errs = append(errs, r.podAffinity(p.RequiredDuringSchedulingIgnoredDuringExecution,
				p.PreferredDuringSchedulingIgnoredDuringExecution, &at, "podAntiAffinity")...)
		}
	}
	if len(s.TopologySpreadConstraints) > 0 {
		errs = append(errs, r.topologySpread(s.TopologySpreadConstraints, fldPath)...)
	}
	if s.PreemptionPolicy != nil {
		errs = append(errs, oneOfInOrder(*s.PreemptionPolicy, fldPath, "preemptionPolicy",
			corev1.PreemptLowerPriority, corev1.PreemptNever)...)
	}
	return errs
}

// Tolerations checks the keys, operators, values and effects of tolerations.
func Tolerations(list []corev1.Toleration, fldPath *fieldrules.Path) field.ErrorList {
	all := fldPath.Child("tolerations")
	return (&rules{}).tolerations(list, &all)
}

// tolerations checks the tolerations at all.
//
//upstream:pkg/apis/core/validation.ValidateTolerations
//upstream:pkg/apis/core/v1.Validate_Toleration
func (r *rules) tolerations(list []corev1.Toleration, all *fieldrules.Path) field.ErrorList {
	var errs field.ErrorList
	for i := range list {
		t, at := &list[i], all.Index(i)
		if t.Key != "" {
			errs = append(errs, fieldrules.LabelName(t.Key, &at, "key")...)
		} else if t.Operator != corev1.TolerationOpExists {
			errs = append(errs, field.Invalid(at.ChildField("operator"), t.Operator,
				"operator must be Exists when `key` is empty, which means \"match all values and all keys\""))
		}
		if t.TolerationSeconds != nil && t.Effect != corev1.TaintEffectNoExecute {
			errs = append(errs, field.Invalid(at.ChildField("effect"), t.Effect,
				"effect must be 'NoExecute' when `tolerationSeconds` is set"))
		}
		switch t.Operator {
		case corev1.TolerationOpEqual, "":
			if bad := validation.IsValidLabelValue(t.Value); len(bad) > 0 {
				errs = append(errs, field.Invalid(at.ChildField("operator"), t.Value, strings.Join(bad, ";")))
			}
		case corev1.TolerationOpExists:
			if t.Value != "" {
				errs = append(errs, field.Invalid(at.ChildField("operator"), t.Value, "value must be empty when `operator` is 'Exists'"))
			}
		case corev1.TolerationOpLt, corev1.TolerationOpGt:
			if !r.comparisons {
				errs = append(errs, field.NotSupported(at.ChildField("operator"), t.Operator,
					[]corev1.TolerationOperator{corev1.TolerationOpEqual, corev1.TolerationOpExists, corev1.TolerationOpLt, corev1.TolerationOpGt}))
				break
			}
			errs = append(errs, fieldrules.Invalid(content.IsDecimalInteger(t.Value), t.Value, &at, "value")...)
			if _, err := strconv.ParseInt(t.Value, 10, 64); err != nil {
				errs = append(errs, field.Invalid(at.ChildField("value"), t.Value, err.Error()))
			}
		default:
			errs = append(errs, fieldrules.NotSupported(t.Operator, &at, "operator",
				[]corev1.TolerationOperator{corev1.TolerationOpEqual, corev1.TolerationOpExists})...)
		}
		if t.Effect != "" {
			errs = append(errs, TaintEffect(t.Effect, &at)...)
		}
	}
	return errs
}

// TaintEffect checks the effect of a taint.
func TaintEffect(e corev1.TaintEffect, fldPath *fieldrules.Path) field.ErrorList {
	return oneOfInOrder(e, fldPath, "effect", corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule,
		corev1.TaintEffectNoExecute)
}

//upstream:pkg/apis/core/validation.validateNodeAffinity
func (r *rules) nodeAffinity(a *corev1.NodeAffinity, fldPath *fieldrules.Path) field.ErrorList {
	if a == nil {
		return nil
	}
	at := fldPath.Child("nodeAffinity")
	var errs field.ErrorList
	if a.RequiredDuringSchedulingIgnoredDuringExecution != nil {
		must := at.Child("requiredDuringSchedulingIgnoredDuringExecution")
		errs = append(errs, NodeSelector(a.RequiredDuringSchedulingIgnoredDuringExecution, r.anyNodeLabel, &must)...)
	}
	list := at.Child("preferredDuringSchedulingIgnoredDuringExecution")
	for i := range a.PreferredDuringSchedulingIgnoredDuringExecution {
		p, item := &a.PreferredDuringSchedulingIgnoredDuringExecution[i], list.Index(i)
		errs = append(errs, weight(p.Weight, &item)...)
		term := item.Child("preference")
		errs = append(errs, nodeSelectorTerm(&p.Preference, true, &term)...)
	}
	return errs
}

func weight(n int32, fldPath *fieldrules.Path) field.ErrorList {
	if n >= 1 && n <= 100 {
		return nil
	}
	return field.ErrorList{field.Invalid(fldPath.ChildField("weight"), n, "must be in the range 1-100")}
}

// NodeSelector checks a required node selector, with anyValue but for the values of labels.
//
//upstream:pkg/apis/core/validation.ValidateNodeSelector
func NodeSelector(s *corev1.NodeSelector, anyValue bool, fldPath *fieldrules.Path) field.ErrorList {
	list := fldPath.Child("nodeSelectorTerms")
	if len(s.NodeSelectorTerms) == 0 {
		return field.ErrorList{field.Required(list.Field(), "must have at least one node selector term")}
	}
	var errs field.ErrorList
	for i := range s.NodeSelectorTerms {
		at := list.Index(i)
		errs = append(errs, nodeSelectorTerm(&s.NodeSelectorTerms[i], anyValue, &at)...)
	}
	return errs
}

// nodeSelectorTerm checks the label and field requirements of a term.
//
//upstream:pkg/apis/core/validation.ValidateNodeSelectorTerm
//upstream:pkg/apis/core/validation.ValidateNodeFieldSelectorRequirement
func nodeSelectorTerm(t *corev1.NodeSelectorTerm, anyValue bool, fldPath *fieldrules.Path) field.ErrorList {
	var errs field.ErrorList
	list := fldPath.Child("matchExpressions")
	for i := range t.MatchExpressions {
		r, at := &t.MatchExpressions[i], list.Index(i)
		errs = append(errs, nodeRequirement(r, &at)...)
		errs = append(errs, metav1validation.ValidateLabelName(r.Key, at.ChildField("key"))...)
		for j, v := range r.Values {
			if anyValue {
				break
			}
			for _, m := range validation.IsValidLabelValue(v) {
				errs = append(errs, field.Invalid(at.ChildField("values").Index(j), v, m))
			}
		}
	}
	list = fldPath.Child("matchFields")
	for i := range t.MatchFields {
		r, at := &t.MatchFields[i], list.Index(i)
		if r.Key != metav1.ObjectNameField {
			errs = append(errs, field.Invalid(at.ChildField("key"), r.Key, "not a valid field selector key"))
		} else {
			values := at.Child("values")
			for j, v := range r.Values {
				item := values.Index(j)
				errs = append(errs, fieldrules.DNSName(v, &item, "")...)
			}
		}
		if !slices.Contains([]corev1.NodeSelectorOperator{corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn}, r.Operator) {
			errs = append(errs, field.Invalid(at.ChildField("operator"), r.Operator, "not a valid selector operator"))
		} else if len(r.Values) != 1 {
			errs = append(errs, field.Required(at.ChildField("values"),
				"must be only one value when `operator` is 'In' or 'NotIn' for node field selector"))
		}
	}
	return errs
}

//upstream:pkg/apis/core/validation.ValidateNodeSelectorRequirement
func nodeRequirement(r *corev1.NodeSelectorRequirement, fldPath *fieldrules.Path) field.ErrorList {
	switch r.Operator {
	case corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn:
		if len(r.Values) == 0 {
			return field.ErrorList{field.Required(fldPath.ChildField("values"),
				"must be specified when `operator` is 'In' or 'NotIn'")}
		}
	case corev1.NodeSelectorOpExists, corev1.NodeSelectorOpDoesNotExist:
		if len(r.Values) > 0 {
			return field.ErrorList{field.Forbidden(fldPath.ChildField("values"),
				"may not be specified when `operator` is 'Exists' or 'DoesNotExist'")}
		}
	case corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt:
		if len(r.Values) != 1 {
			return field.ErrorList{field.Required(fldPath.ChildField("values"),
				"must be specified single value when `operator` is 'Lt' or 'Gt'")}
		}
	default:
		return field.ErrorList{field.Invalid(fldPath.ChildField("operator"), r.Operator, "not a valid selector operator")}
	}
	return nil
}

//upstream:pkg/apis/core/validation.validatePodAffinity
//upstream:pkg/apis/core/validation.validatePodAntiAffinity
func (r *rules) podAffinity(must []corev1.PodAffinityTerm, prefer []corev1.WeightedPodAffinityTerm, fldPath *fieldrules.Path,
	name string) field.ErrorList {
	var errs field.ErrorList
	at := fldPath.Child(name)
	list := at.Child("requiredDuringSchedulingIgnoredDuringExecution")
	for i := range must {
		item := list.Index(i)
		errs = append(errs, r.podAffinityTerm(&must[i], &item)...)
	}
	list = at.Child("preferredDuringSchedulingIgnoredDuringExecution")
	for i := range prefer {
		item := list.Index(i)
		errs = append(errs, weight(prefer[i].Weight, &item)...)
		term := item.Child("podAffinityTerm")
		errs = append(errs, r.podAffinityTerm(&prefer[i].PodAffinityTerm, &term)...)
	}
	return errs
}

//upstream:pkg/apis/core/validation.validatePodAffinityTerm
func (r *rules) podAffinityTerm(t *corev1.PodAffinityTerm, fldPath *fieldrules.Path) field.ErrorList {
	errs := termSelectors(t, r.anySelector, fldPath)
	for _, n := range t.Namespaces {
		errs = append(errs, fieldrules.Invalid(fieldrules.NameIsLabel(n, false), n, fldPath, "namespace")...)
	}
	errs = append(errs, labelKeys(t.MatchLabelKeys, t.MismatchLabelKeys, t.LabelSelector, fldPath)...)
	if t.TopologyKey == "" {
		errs = append(errs, field.Required(fldPath.ChildField("topologyKey"), "can not be empty"))
	}
	return append(errs, metav1validation.ValidateLabelName(t.TopologyKey, fldPath.ChildField("topologyKey"))...)
}

// termSelectors checks the selectors of a term, with anyValue but for the values of labels.
//
//upstream:pkg/apis/core/validation.ValidatePodAffinityTermSelector
func termSelectors(t *corev1.PodAffinityTerm, anyValue bool, fldPath *fieldrules.Path) field.ErrorList {
	if t.LabelSelector == nil && t.NamespaceSelector == nil {
		return nil
	}
	options := metav1validation.LabelSelectorValidationOptions{AllowInvalidLabelValueInSelector: anyValue}
	errs := metav1validation.ValidateLabelSelector(t.LabelSelector, options, fldPath.ChildField("labelSelector"))
	return append(errs, metav1validation.ValidateLabelSelector(t.NamespaceSelector, options, fldPath.ChildField("namespaceSelector"))...)
}

// labelKeys checks keys of labels. The selector takes the values of these labels from the pod that it belongs to.
//
//upstream:pkg/apis/core/validation.ValidateMatchLabelKeysAndMismatchLabelKeys
//upstream:pkg/apis/core/validation.validateLabelKeys
func labelKeys(match, mismatch []string, selector *metav1.LabelSelector, fldPath *fieldrules.Path) field.ErrorList {
	var errs field.ErrorList
	for _, list := range [...]struct {
		name string
		keys []string
	}{{"matchLabelKeys", match}, {"mismatchLabelKeys", mismatch}} {
		if len(list.keys) > 0 && selector == nil {
			errs = append(errs, field.Forbidden(fldPath.ChildField(list.name), noSelector))
			continue
		}
		for i, key := range list.keys {
			errs = append(errs, metav1validation.ValidateLabelName(key, fldPath.ChildField(list.name).Index(i))...)
		}
	}
	errs = append(errs, selectedTwice(match, selector, fldPath)...)
	var other fieldrules.Seen[string]
	for _, key := range mismatch {
		other.Add(key)
	}
	for i, key := range match {
		if other.Has(key) {
			errs = append(errs, field.Invalid(fldPath.ChildField("matchLabelKeys").Index(i), key,
				"exists in both matchLabelKeys and mismatchLabelKeys"))
		}
	}
	return errs
}

// noSelector is the error for keys of labels without the selector that they would narrow.
const noSelector = "must not be specified when labelSelector is not set"

// selectedTwice rejects a key of matchLabelKeys that labelSelector already uses. The requirement that the API server
// adds does not count.
func selectedTwice(keys []string, s *metav1.LabelSelector, at *fieldrules.Path) field.ErrorList {
	if s == nil || len(keys) == 0 {
		return nil
	}
	var errs field.ErrorList
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
			item := at.Index(i)
			errs = append(errs, field.Invalid(item.Field(), e.Key, "exists in both matchLabelKeys and labelSelector"))
		}
		selected[e.Key] = true
	}
	return errs
}

// strictSpreadKeys is spreadKeys of an API server that does not add matchLabelKeys to the selector.
//
//upstream:pkg/apis/core/validation.ValidateMatchLabelKeysInTopologySpread
func strictSpreadKeys(c *corev1.TopologySpreadConstraint, fldPath *fieldrules.Path) field.ErrorList {
	if len(c.MatchLabelKeys) == 0 {
		return nil
	}
	var errs field.ErrorList
	selected := map[string]bool{}
	if c.LabelSelector == nil {
		errs = append(errs, field.Forbidden(fldPath.ChildField("matchLabelKeys"), noSelector))
	} else {
		for key := range c.LabelSelector.MatchLabels {
			selected[key] = true
		}
		for _, e := range c.LabelSelector.MatchExpressions {
			selected[e.Key] = true
		}
	}
	for i, key := range c.MatchLabelKeys {
		at := fldPath.ChildField("matchLabelKeys").Index(i)
		errs = append(errs, metav1validation.ValidateLabelName(key, at)...)
		if selected[key] {
			errs = append(errs, field.Invalid(at, key, "exists in both matchLabelKeys and labelSelector"))
		}
	}
	return errs
}

// spreadKeys checks matchLabelKeys of a constraint.
func spreadKeys(c *corev1.TopologySpreadConstraint, fldPath *fieldrules.Path) field.ErrorList {
	return labelKeys(c.MatchLabelKeys, nil, c.LabelSelector, fldPath)
}

// topologySpread checks topology spread constraints, and that they are unique.
//
//upstream:pkg/apis/core/validation.validateTopologySpreadConstraints
func (r *rules) topologySpread(list []corev1.TopologySpreadConstraint, fldPath *fieldrules.Path) field.ErrorList {
	var errs field.ErrorList
	if len(list) == 0 {
		return nil
	}
	all := fldPath.Child("topologySpreadConstraints")
	type constraint struct {
		key  string
		when corev1.UnsatisfiableConstraintAction
	}
	last := make(map[constraint]int, len(list))
	for i, c := range list {
		last[constraint{c.TopologyKey, c.WhenUnsatisfiable}] = i
	}
	for i := range list {
		c, at := &list[i], all.Index(i)
		errs = append(errs, fieldrules.Positive(c.MaxSkew, &at, "maxSkew")...)
		if c.TopologyKey == "" {
			errs = append(errs, field.Required(at.ChildField("topologyKey"), "can not be empty"))
		}
		errs = append(errs, fieldrules.Supported(c.WhenUnsatisfiable, &at, "whenUnsatisfiable", corev1.DoNotSchedule,
			corev1.ScheduleAnyway)...)
		if i < last[constraint{c.TopologyKey, c.WhenUnsatisfiable}] {
			errs = append(errs, field.Duplicate(at.ChildField("{topologyKey, whenUnsatisfiable}"),
				"{"+c.TopologyKey+", "+string(c.WhenUnsatisfiable)+"}"))
		}
		if r.strictSpread {
			errs = append(errs, strictSpreadKeys(c, &at)...)
		} else {
			errs = append(errs, spreadKeys(c, &at)...)
		}
		if c.MinDomains != nil {
			errs = append(errs, fieldrules.Positive(*c.MinDomains, &at, "minDomains")...)
			if c.WhenUnsatisfiable != corev1.DoNotSchedule {
				errs = append(errs, field.Invalid(at.ChildField("minDomains"), *c.MinDomains,
					"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not "+string(c.WhenUnsatisfiable)))
			}
		}
		errs = append(errs, fieldrules.OptionalOneOf(c.NodeAffinityPolicy, &at, "nodeAffinityPolicy",
			corev1.NodeInclusionPolicyHonor, corev1.NodeInclusionPolicyIgnore)...)
		errs = append(errs, fieldrules.OptionalOneOf(c.NodeTaintsPolicy, &at, "nodeTaintsPolicy",
			corev1.NodeInclusionPolicyHonor, corev1.NodeInclusionPolicyIgnore)...)
		if !r.anySpread {
			errs = append(errs, fieldrules.LabelSelector(c.LabelSelector, &at, "labelSelector")...)
		}
	}
	return errs
}
