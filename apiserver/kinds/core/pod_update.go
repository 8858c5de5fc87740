package core

import (
	"math"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/diff"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"flyball.dev/apiserver/equality"
	"flyball.dev/apiserver/kinds/check"
	"flyball.dev/apiserver/kinds/fieldrules"
	"flyball.dev/apiserver/kinds/podspec"
)

// validatePodUpdate checks that only mutable fields of a pod change.
//
//upstream:pkg/apis/core/validation.ValidatePodUpdate
//upstream:pkg/apis/core/validation.ValidateContainerUpdates
func validatePodUpdate(p, old *corev1.Pod) field.ErrorList {
	fldPath := fieldrules.Spec
	errs := ValidatePod(p, old)
	podspec.ValidateAnnotations(check.Object(&errs).Child("metadata").Child("annotations"), p, old)
	if len(p.Spec.Containers) != len(old.Spec.Containers) {
		return append(errs, field.Forbidden(fldPath.ChildField("containers"), "pod updates may not add or remove containers"))
	}
	if len(p.Spec.InitContainers) != len(old.Spec.InitContainers) {
		return append(errs, field.Forbidden(fldPath.ChildField("initContainers"),
			"pod updates may not add or remove containers"))
	}
	at := fldPath.Child("activeDeadlineSeconds")
	switch now, was := p.Spec.ActiveDeadlineSeconds, old.Spec.ActiveDeadlineSeconds; {
	case now == nil && was != nil:
		errs = append(errs, field.Invalid(at.Field(), now, "must not update from a positive integer to nil value"))
	case now == nil:
	case *now < 0 || *now > math.MaxInt32:
		return append(errs, field.Invalid(at.Field(), *now, validation.InclusiveRangeError(0, math.MaxInt32)))
	case was != nil && *now > *was:
		return append(errs, field.Invalid(at.Field(), *now, "must be less than or equal to previous value"))
	}
	errs = append(errs, fewerGates(p, old, &fldPath)...)
	errs = append(errs, moreTolerations(p.Spec.Tolerations, old.Spec.Tolerations, &fldPath)...)
	if equality.Semantic(&p.Spec, &old.Spec) {
		return errs
	}
	reset, more := resetMutable(p, old)
	errs = append(errs, more...)
	if !equality.Semantic(&reset, &old.Spec) {
		errs = append(errs, field.Forbidden(fldPath.Field(), ImmutableFields+"\n"+diff.Diff(old.Spec, reset)))
	}
	return errs
}

// resetMutable returns the new spec with the old values of all mutable fields, and the errors of the changes of these.
//
//upstream:pkg/apis/core/validation.ValidatePodUpdate
func resetMutable(p, old *corev1.Pod) (corev1.PodSpec, field.ErrorList) {
	s := *p.Spec.DeepCopy()
	for i := range s.Containers {
		s.Containers[i].Image = old.Spec.Containers[i].Image
	}
	for i := range s.InitContainers {
		s.InitContainers[i].Image = old.Spec.InitContainers[i].Image
	}
	s.ActiveDeadlineSeconds = old.Spec.ActiveDeadlineSeconds
	s.Tolerations = old.Spec.Tolerations
	s.SchedulingGates = old.Spec.SchedulingGates
	if was := old.Spec.TerminationGracePeriodSeconds; was != nil && *was < 0 &&
		s.TerminationGracePeriodSeconds != nil && *s.TerminationGracePeriodSeconds == 1 {
		s.TerminationGracePeriodSeconds = was
	}
	if len(old.Spec.SchedulingGates) == 0 {
		return s, nil
	}
	errs := narrowerSelector(s.NodeSelector, old.Spec.NodeSelector)
	s.NodeSelector = old.Spec.NodeSelector
	now, was := nodeAffinityOf(s.Affinity), nodeAffinityOf(old.Spec.Affinity)
	if equality.Semantic(now, was) {
		return s, errs
	}
	errs = append(errs, narrowerAffinity(now, was)...)
	switch a := s.Affinity; {
	case a == nil:
		s.Affinity = &corev1.Affinity{NodeAffinity: was}
	case old.Spec.Affinity == nil && a.PodAffinity == nil && a.PodAntiAffinity == nil:
		s.Affinity = nil
	default:
		a.NodeAffinity = was
	}
	return s, errs
}

func nodeAffinityOf(a *corev1.Affinity) *corev1.NodeAffinity {
	if a == nil {
		return nil
	}
	return a.NodeAffinity
}

// narrowerSelector checks that an update of a pod with scheduling gates only adds to the node selector.
//
//upstream:pkg/apis/core/validation.validateNodeSelectorMutation
func narrowerSelector(now, was map[string]string) field.ErrorList {
	for key, value := range was {
		if v, ok := now[key]; !ok || v != value {
			return field.ErrorList{field.Invalid(fieldrules.Spec.ChildField("nodeSelector"), now,
				"only additions to spec.nodeSelector are allowed (no mutations or deletions)")}
		}
	}
	return nil
}

// narrowerAffinity checks that an update of a pod with scheduling gates only adds requirements to the terms of the
// required node affinity.
//
//upstream:pkg/apis/core/validation.validateNodeAffinityMutation
func narrowerAffinity(now, was *corev1.NodeAffinity) field.ErrorList {
	if was == nil || was.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return nil
	}
	before := was.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	var after []corev1.NodeSelectorTerm
	if now != nil && now.RequiredDuringSchedulingIgnoredDuringExecution != nil {
		after = now.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	}
	at := field.NewPath("spec", "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")
	if len(before) > 0 && len(before) != len(after) {
		return field.ErrorList{field.Invalid(at, fieldrules.Internal(after),
			"no additions/deletions to non-empty NodeSelectorTerms list are allowed")}
	}
	var errs field.ErrorList
	for i := range before {
		if !narrowerTerm(&after[i], &before[i]) {
			errs = append(errs, field.Invalid(at.Index(i), fieldrules.Internal(after[i]),
				"only additions are allowed (no mutations or deletions)"))
		}
	}
	return errs
}

// narrowerTerm reports whether a term begins with the requirements of the old one. An empty term, which selects nothing,
// stays empty.
//
//upstream:pkg/apis/core/validation.validateNodeSelectorTermHasOnlyAdditions
func narrowerTerm(now, was *corev1.NodeSelectorTerm) bool {
	if len(was.MatchExpressions)+len(was.MatchFields) == 0 {
		return len(now.MatchExpressions)+len(now.MatchFields) == 0
	}
	return extends(now.MatchExpressions, was.MatchExpressions) && extends(now.MatchFields, was.MatchFields)
}

func extends(now, was []corev1.NodeSelectorRequirement) bool {
	return len(now) >= len(was) && equality.Semantic(now[:len(was)], was)
}

// fewerGates checks that an update adds no scheduling gate.
//
//upstream:pkg/apis/core/validation.validateOnlyDeletedSchedulingGates
func fewerGates(p, old *corev1.Pod, fldPath *fieldrules.Path) field.ErrorList {
	var known fieldrules.Seen[string]
	for _, g := range old.Spec.SchedulingGates {
		known.Add(g.Name)
	}
	added := map[string]int{}
	for i, g := range p.Spec.SchedulingGates {
		if !known.Has(g.Name) {
			added[g.Name] = i
		}
	}
	var errs field.ErrorList
	for _, name := range fieldrules.SortedKeys(added) {
		errs = append(errs, field.Forbidden(fldPath.ChildField("schedulingGates").Index(added[name]).Child("name"),
			"only deletion is allowed, but found new scheduling gate '"+name+"'"))
	}
	return errs
}

// moreTolerations checks that an update removes no toleration, and changes only tolerationSeconds.
//
//upstream:pkg/apis/core/validation.validateOnlyAddedTolerations
func moreTolerations(now, was []corev1.Toleration, fldPath *fieldrules.Path) field.ErrorList {
	var kept fieldrules.Seen[corev1.Toleration]
	for _, t := range now {
		t.TolerationSeconds = nil
		kept.Add(t)
	}
	for _, t := range was {
		t.TolerationSeconds = nil
		if !kept.Has(t) {
			return field.ErrorList{field.Forbidden(fldPath.ChildField("tolerations"),
				"existing toleration can not be modified except its tolerationSeconds")}
		}
	}
	return nil
}
