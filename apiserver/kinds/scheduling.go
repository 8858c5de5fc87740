package kinds

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// scheduling checks which nodes a pod likes, bears and avoids.
func scheduling(s *corev1.PodSpec, w *where) field.ErrorList {
	errs := tolerations(s.Tolerations, w)
	if a := s.Affinity; a != nil {
		at := w.at("affinity")
		errs = append(errs, nodeAffinity(a.NodeAffinity, &at)...)
		if p := a.PodAffinity; p != nil {
			errs = append(errs, podAffinity(p.RequiredDuringSchedulingIgnoredDuringExecution, p.PreferredDuringSchedulingIgnoredDuringExecution, &at, "podAffinity")...)
		}
		if p := a.PodAntiAffinity; p != nil {
			errs = append(errs, podAffinity(p.RequiredDuringSchedulingIgnoredDuringExecution, p.PreferredDuringSchedulingIgnoredDuringExecution, &at, "podAntiAffinity")...)
		}
	}
	if len(s.TopologySpreadConstraints) > 0 {
		errs = append(errs, topologySpread(s.TopologySpreadConstraints, w)...)
	}
	if s.PreemptionPolicy != nil {
		errs = append(errs, oneOf(*s.PreemptionPolicy, w, "preemptionPolicy", corev1.PreemptLowerPriority, corev1.PreemptNever)...)
	}
	return errs
}

func tolerations(list []corev1.Toleration, w *where) field.ErrorList {
	var errs field.ErrorList
	all := w.at("tolerations")
	for i := range list {
		t, at := &list[i], all.item(i)
		if t.Key != "" {
			errs = append(errs, labelName(t.Key, &at, "key")...)
		} else if t.Operator != corev1.TolerationOpExists {
			errs = append(errs, field.Invalid(at.of("operator"), t.Operator, "operator must be Exists when `key` is empty, which means \"match all values and all keys\""))
		}
		if t.TolerationSeconds != nil && t.Effect != corev1.TaintEffectNoExecute {
			errs = append(errs, field.Invalid(at.of("effect"), t.Effect, "effect must be 'NoExecute' when `tolerationSeconds` is set"))
		}
		switch t.Operator {
		case corev1.TolerationOpEqual, "":
			errs = append(errs, invalid(validation.IsValidLabelValue(t.Value), t.Value, &at, "operator")...)
		case corev1.TolerationOpExists:
			if t.Value != "" {
				errs = append(errs, field.Invalid(at.of("operator"), *t, "value must be empty when `operator` is 'Exists'"))
			}
		case corev1.TolerationOpLt, corev1.TolerationOpGt:
		default:
			errs = append(errs, notSupported(t.Operator, &at, "operator", []corev1.TolerationOperator{corev1.TolerationOpEqual, corev1.TolerationOpExists})...)
		}
		if t.Effect != "" {
			errs = append(errs, taintEffect(t.Effect, &at)...)
		}
	}
	return errs
}

func taintEffect(e corev1.TaintEffect, w *where) field.ErrorList {
	return oneOf(e, w, "effect", corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute)
}

func nodeAffinity(a *corev1.NodeAffinity, w *where) field.ErrorList {
	if a == nil {
		return nil
	}
	at := w.at("nodeAffinity")
	var errs field.ErrorList
	if a.RequiredDuringSchedulingIgnoredDuringExecution != nil {
		must := at.at("requiredDuringSchedulingIgnoredDuringExecution")
		errs = append(errs, nodeSelector(a.RequiredDuringSchedulingIgnoredDuringExecution, &must)...)
	}
	list := at.at("preferredDuringSchedulingIgnoredDuringExecution")
	for i := range a.PreferredDuringSchedulingIgnoredDuringExecution {
		p, item := &a.PreferredDuringSchedulingIgnoredDuringExecution[i], list.item(i)
		errs = append(errs, weight(p.Weight, &item)...)
		term := item.at("preference")
		errs = append(errs, nodeSelectorTerm(&p.Preference, &term)...)
	}
	return errs
}

func weight(n int32, w *where) field.ErrorList {
	if n >= 1 && n <= 100 {
		return nil
	}
	return field.ErrorList{field.Invalid(w.of("weight"), n, "must be in the range 1-100")}
}

func nodeSelector(s *corev1.NodeSelector, w *where) field.ErrorList {
	list := w.at("nodeSelectorTerms")
	if len(s.NodeSelectorTerms) == 0 {
		return field.ErrorList{field.Required(list.path(), "must have at least one node selector term")}
	}
	var errs field.ErrorList
	for i := range s.NodeSelectorTerms {
		at := list.item(i)
		errs = append(errs, nodeSelectorTerm(&s.NodeSelectorTerms[i], &at)...)
	}
	return errs
}

func nodeSelectorTerm(t *corev1.NodeSelectorTerm, w *where) field.ErrorList {
	var errs field.ErrorList
	list := w.at("matchExpressions")
	for i := range t.MatchExpressions {
		r, at := &t.MatchExpressions[i], list.item(i)
		errs = append(errs, nodeRequirement(r, &at)...)
		errs = append(errs, metav1validation.ValidateLabelName(r.Key, at.of("key"))...)
		for j, v := range r.Values {
			for _, m := range validation.IsValidLabelValue(v) {
				errs = append(errs, field.Invalid(at.of("values").Index(j), v, m))
			}
		}
	}
	list = w.at("matchFields")
	for i := range t.MatchFields {
		r, at := &t.MatchFields[i], list.item(i)
		if r.Key != metav1.ObjectNameField {
			errs = append(errs, field.Invalid(at.of("key"), r.Key, "not a valid field selector key"))
		}
		if !slices.Contains([]corev1.NodeSelectorOperator{corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn}, r.Operator) {
			errs = append(errs, field.Invalid(at.of("operator"), r.Operator, "not a valid selector operator"))
		} else if len(r.Values) != 1 {
			errs = append(errs, field.Required(at.of("values"), "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"))
		}
	}
	return errs
}

func nodeRequirement(r *corev1.NodeSelectorRequirement, w *where) field.ErrorList {
	switch r.Operator {
	case corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn:
		if len(r.Values) == 0 {
			return field.ErrorList{field.Required(w.of("values"), "must be specified when `operator` is 'In' or 'NotIn'")}
		}
	case corev1.NodeSelectorOpExists, corev1.NodeSelectorOpDoesNotExist:
		if len(r.Values) > 0 {
			return field.ErrorList{field.Forbidden(w.of("values"), "may not be specified when `operator` is 'Exists' or 'DoesNotExist'")}
		}
	case corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt:
		if len(r.Values) != 1 {
			return field.ErrorList{field.Required(w.of("values"), "must be specified single value when `operator` is 'Lt' or 'Gt'")}
		}
	default:
		return field.ErrorList{field.Invalid(w.of("operator"), r.Operator, "not a valid selector operator")}
	}
	return nil
}

func podAffinity(must []corev1.PodAffinityTerm, prefer []corev1.WeightedPodAffinityTerm, w *where, name string) field.ErrorList {
	var errs field.ErrorList
	at := w.at(name)
	list := at.at("requiredDuringSchedulingIgnoredDuringExecution")
	for i := range must {
		item := list.item(i)
		errs = append(errs, podAffinityTerm(&must[i], &item)...)
	}
	list = at.at("preferredDuringSchedulingIgnoredDuringExecution")
	for i := range prefer {
		item := list.item(i)
		errs = append(errs, weight(prefer[i].Weight, &item)...)
		term := item.at("podAffinityTerm")
		errs = append(errs, podAffinityTerm(&prefer[i].PodAffinityTerm, &term)...)
	}
	return errs
}

func podAffinityTerm(t *corev1.PodAffinityTerm, w *where) field.ErrorList {
	errs := labelSelector(t.LabelSelector, w, "labelSelector")
	errs = append(errs, labelSelector(t.NamespaceSelector, w, "namespaceSelector")...)
	list := w.at("namespaces")
	for i, n := range t.Namespaces {
		at := list.item(i)
		errs = append(errs, dnsLabel(n, &at, "")...)
	}
	if t.TopologyKey == "" {
		return append(errs, field.Required(w.of("topologyKey"), "can not be empty"))
	}
	return append(errs, metav1validation.ValidateLabelName(t.TopologyKey, w.of("topologyKey"))...)
}

func topologySpread(list []corev1.TopologySpreadConstraint, w *where) field.ErrorList {
	var errs field.ErrorList
	all := w.at("topologySpreadConstraints")
	for i := range list {
		c, at := &list[i], all.item(i)
		errs = append(errs, positive(c.MaxSkew, &at, "maxSkew")...)
		if c.TopologyKey == "" {
			errs = append(errs, field.Required(at.of("topologyKey"), "can not be empty"))
		} else {
			errs = append(errs, metav1validation.ValidateLabelName(c.TopologyKey, at.of("topologyKey"))...)
		}
		errs = append(errs, oneOf(c.WhenUnsatisfiable, &at, "whenUnsatisfiable", corev1.DoNotSchedule, corev1.ScheduleAnyway)...)
		same := func(o corev1.TopologySpreadConstraint) bool {
			return o.TopologyKey == c.TopologyKey && o.WhenUnsatisfiable == c.WhenUnsatisfiable
		}
		if slices.ContainsFunc(list[:i], same) {
			errs = append(errs, field.Duplicate(at.of("{topologyKey, whenUnsatisfiable}"), "{"+c.TopologyKey+", "+string(c.WhenUnsatisfiable)+"}"))
		}
		if c.MinDomains != nil {
			errs = append(errs, positive(*c.MinDomains, &at, "minDomains")...)
			if c.WhenUnsatisfiable != corev1.DoNotSchedule {
				errs = append(errs, field.Invalid(at.of("minDomains"), *c.MinDomains, "can only use minDomains if whenUnsatisfiable=DoNotSchedule, not "+string(c.WhenUnsatisfiable)))
			}
		}
		errs = append(errs, oneOfIf(c.NodeAffinityPolicy, &at, "nodeAffinityPolicy", corev1.NodeInclusionPolicyHonor, corev1.NodeInclusionPolicyIgnore)...)
		errs = append(errs, oneOfIf(c.NodeTaintsPolicy, &at, "nodeTaintsPolicy", corev1.NodeInclusionPolicyHonor, corev1.NodeInclusionPolicyIgnore)...)
		errs = append(errs, labelSelector(c.LabelSelector, &at, "labelSelector")...)
	}
	return errs
}
