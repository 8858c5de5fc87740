package core

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"

	"flyball.dev/apiserver/kinds/check"
	"flyball.dev/apiserver/kinds/fieldrules"
	"flyball.dev/apiserver/kinds/podspec"
)

// preparePodStatus keeps the owners, and the fields of the status that a client may not know and leaves
// out. It drops the deletion timestamp.
//
//upstream:pkg/registry/core/pod.podStatusStrategy.PrepareForUpdate
func preparePodStatus(_ context.Context, p, old *corev1.Pod) {
	p.DeletionTimestamp, p.OwnerReferences = nil, old.OwnerReferences
	is, was := &p.Status, &old.Status
	if is.QOSClass == "" {
		is.QOSClass = was.QOSClass
	}
	if is.ResourceClaimStatuses == nil {
		is.ResourceClaimStatuses = was.ResourceClaimStatuses
	}
	if is.ExtendedResourceClaimStatus == nil {
		is.ExtendedResourceClaimStatus = was.ExtendedResourceClaimStatus
	}
	if is.NodeAllocatableResourceClaimStatuses == nil {
		is.NodeAllocatableResourceClaimStatuses = was.NodeAllocatableResourceClaimStatuses
	}
	keepObservedGenerations(is, was)
}

// keepObservedGenerations keeps the observed generations of the status and of the conditions, which
// clients drop that do not know the fields. Several conditions may have one type.
//
//upstream:pkg/registry/core/pod.preserveOldObservedGeneration
func keepObservedGenerations(is, was *corev1.PodStatus) {
	if is.ObservedGeneration == 0 {
		is.ObservedGeneration = was.ObservedGeneration
	}
	before := map[corev1.PodConditionType][]int64{}
	for _, c := range was.Conditions {
		before[c.Type] = append(before[c.Type], c.ObservedGeneration)
	}
	for i := range is.Conditions {
		c := &is.Conditions[i]
		generations := before[c.Type]
		if len(generations) == 0 {
			continue
		}
		before[c.Type] = generations[1:]
		if c.ObservedGeneration == 0 {
			c.ObservedGeneration = generations[0]
		}
	}
}

// podStatusWarnings returns the warnings for the addresses in the status.
//
//upstream:pkg/registry/core/pod.podStatusStrategy.WarningsOnUpdate
func podStatusWarnings(p *corev1.Pod) []string {
	var warnings []string
	for i, ip := range p.Status.PodIPs {
		warnings = append(warnings, fieldrules.IPWarnings(ip.IP, fieldrules.Status.ChildField("podIPs").Index(i).Child("ip"))...)
	}
	for i, ip := range p.Status.HostIPs {
		warnings = append(warnings, fieldrules.IPWarnings(ip.IP, fieldrules.Status.ChildField("hostIPs").Index(i).Child("ip"))...)
	}
	return warnings
}

// validatePodStatus checks an update of the status.
//
//upstream:pkg/apis/core/validation.ValidatePodStatusUpdate
func validatePodStatus(p, old *corev1.Pod) field.ErrorList {
	fldPath := fieldrules.Status
	is, was := &p.Status, &old.Status
	var errs field.ErrorList
	podspec.ValidateAnnotations(check.Object(&errs).Child("metadata").Child("annotations"), p, old)
	errs = append(errs, podConditions(is.Conditions)...)
	if now := is.NominatedNodeName; now != "" && now != was.NominatedNodeName {
		errs = append(errs, fieldrules.DNSName(now, &fldPath, "nominatedNodeName")...)
		if old.Spec.NodeName != "" {
			errs = append(errs, field.Forbidden(fldPath.ChildField("nominatedNodeName"),
				"may not be set on pods that are already bound to a node"))
		}
	}
	errs = append(errs, observed(is.ObservedGeneration, &fldPath)...)
	if is.QOSClass != was.QOSClass {
		errs = append(errs, fieldrules.Immutable(is.QOSClass, was.QOSClass, &fldPath, "qosClass")...)
	}
	errs = append(errs, validatePodIPs(is, was)...)
	errs = append(errs, validateHostIPs(is, was)...)
	errs = append(errs, claimStatuses(p)...)
	if is.ExtendedResourceClaimStatus != nil {
		errs = append(errs, extendedClaimStatus(is.ExtendedResourceClaimStatus, &p.Spec)...)
	}
	return append(errs, containerStatuses(p, old)...)
}

// observed checks a generation that a controller has observed.
func observed(generation int64, fldPath *fieldrules.Path) field.ErrorList {
	if generation >= 0 {
		return nil
	}
	return field.ErrorList{field.Invalid(fldPath.ChildField("observedGeneration"), generation, "must be a non-negative integer")}
}

// podConditions checks the types of conditions, which Kubernetes's do not need.
//
//upstream:pkg/apis/core/validation.validatePodConditions
func podConditions(list []corev1.PodCondition) field.ErrorList {
	var errs field.ErrorList
	all := fieldrules.Status.Child("conditions")
	for i := range list {
		at := all.Index(i)
		errs = append(errs, observed(list[i].ObservedGeneration, &at)...)
		switch list[i].Type {
		case corev1.PodScheduled, corev1.PodReady, corev1.PodInitialized:
		default:
			errs = append(errs, fieldrules.QualifiedName(string(list[i].Type), &at, "Type")...)
		}
	}
	return errs
}

// validatePodIPs checks the addresses of a pod.
//
//upstream:pkg/apis/core/validation.validatePodIPs
func validatePodIPs(is, was *corev1.PodStatus) field.ErrorList {
	var now, known []string
	for _, ip := range was.PodIPs {
		known = append(known, ip.IP)
	}
	for _, ip := range is.PodIPs {
		now = append(now, ip.IP)
	}
	at := fieldrules.Status.Child("podIPs")
	errs := addresses(now, known, fieldrules.Internal(is.PodIPs), &at)
	switch {
	case (is.PodIP == "") != (len(now) == 0):
		errs = append(errs, field.Invalid(at.Field(), fieldrules.Internal(is.PodIPs),
			"podIP and podIPs must either both be set or both be unset"))
	case len(now) > 0 && is.PodIP != now[0]:
		errs = append(errs, field.Invalid(at.Field().Index(0).Child("ip"), now[0], "must be equal to `podIP`"))
	}
	return errs
}

// validateHostIPs checks the addresses of the node of a pod.
//
//upstream:pkg/apis/core/validation.validateHostIPs
func validateHostIPs(is, was *corev1.PodStatus) field.ErrorList {
	if len(is.HostIPs) == 0 {
		return nil
	}
	var now, known []string
	for _, ip := range was.HostIPs {
		known = append(known, ip.IP)
	}
	for _, ip := range is.HostIPs {
		now = append(now, ip.IP)
	}
	at := fieldrules.Status.Child("hostIPs")
	errs := addresses(now, known, fieldrules.Internal(is.HostIPs), &at)
	if is.HostIP != now[0] {
		errs = append(errs, field.Invalid(at.Field().Index(0).Child("ip"), now[0], "must be equal to `hostIP`"))
	}
	return errs
}

// addresses checks IP addresses. There is at most one of a family. An address that is known may be in an older
// format. The error shows value.
func addresses(now, known []string, value any, at *fieldrules.Path) field.ErrorList {
	var errs field.ErrorList
	for i, ip := range now {
		errs = append(errs, validation.IsValidIPForLegacyField(at.Field().Index(i), ip, true, known)...)
	}
	if len(now) < 2 {
		return errs
	}
	both, err := netutils.IsDualStackIPStrings(now)
	if err != nil {
		errs = append(errs, field.InternalError(at.Field(), fmt.Errorf("failed to check for dual stack with error:%v", err)))
	}
	if !both || len(now) > 2 {
		errs = append(errs, field.Invalid(at.Field(), value, "may specify no more than one IP for each IP family"))
	}
	return errs
}

// claimStatuses checks the claims that were made for a pod.
//
//upstream:pkg/apis/core/validation.validatePodResourceClaimStatuses
func claimStatuses(p *corev1.Pod) field.ErrorList {
	var errs field.ErrorList
	var names fieldrules.Seen[string]
	list := fieldrules.Status.Child("resourceClaimStatuses")
	for i, s := range p.Status.ResourceClaimStatuses {
		at := list.Index(i)
		if !slices.ContainsFunc(p.Spec.ResourceClaims, func(c corev1.PodResourceClaim) bool { return c.Name == s.Name }) {
			errs = append(errs, field.Invalid(at.ChildField("name"), s.Name, "must match the name of an entry in `spec.resourceClaims`"))
		}
		if !names.Add(s.Name) {
			errs = append(errs, field.Duplicate(at.ChildField("name"), s.Name))
		}
		if s.ResourceClaimName != nil {
			errs = append(errs, fieldrules.Invalid(fieldrules.NameIsSubdomain(*s.ResourceClaimName, false), s.ResourceClaimName, &at, "resourceClaimName")...)
		}
	}
	return errs
}

// extendedClaimStatus checks the claim that was made for the extended resources of a pod.
//
//upstream:pkg/apis/core/validation.validatePodExtendedResourceClaimStatus
func extendedClaimStatus(s *corev1.PodExtendedResourceClaimStatus, spec *corev1.PodSpec) field.ErrorList {
	containers := map[string]corev1.ResourceList{}
	for _, list := range [...][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range list {
			containers[list[i].Name] = list[i].Resources.Requests
		}
	}
	var errs field.ErrorList
	fldPath := fieldrules.Status.Child("extendedResourceClaimStatus")
	list := fldPath.Child("requestMappings")
	if len(s.RequestMappings) == 0 {
		errs = append(errs, field.Required(list.Field(), "at least one request mapping is required"))
	}
	var known fieldrules.Seen[corev1.ContainerExtendedResourceRequest]
	for i, m := range s.RequestMappings {
		at := list.Index(i)
		if requests, ok := containers[m.ContainerName]; !ok {
			errs = append(errs, field.Invalid(at.ChildField("containerName"), m.ContainerName,
				"must match the name of an entry in spec.initContainers.name or spec.containers.name"))
		} else if _, ok := requests[corev1.ResourceName(m.ResourceName)]; !ok {
			errs = append(errs, field.Invalid(at.ChildField("resourceName"), m.ResourceName, "must match the extended resource "+
				"name of an entry in spec.initContainers.resources.requests or spec.containers.resources.requests"))
		}
		errs = append(errs, fieldrules.Invalid(validation.IsDNS1123Label(m.RequestName), m.RequestName, &fldPath, "requestName")...)
		if !known.Add(m) {
			errs = append(errs, field.Duplicate(at.ChildField("containerName"), m.ContainerName),
				field.Duplicate(at.ChildField("resourceName"), m.ResourceName), field.Duplicate(at.ChildField("requestName"), m.RequestName))
		}
	}
	if s.ResourceClaimName == "" {
		return append(errs, field.Required(fldPath.ChildField("resourceClaimName"), ""))
	}
	return append(errs, fieldrules.DNSName(s.ResourceClaimName, &fldPath, "resourceClaimName")...)
}
