package core

import (
	"context"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"flyball.dev/apiserver/kinds/fieldrules"
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

// validatePodIPs checks the addresses of a pod, and that a pod has at most one address of a family.
//
//upstream:pkg/apis/core/validation.validatePodIPs
func validatePodIPs(now, was []corev1.PodIP) field.ErrorList {
	var errs field.ErrorList
	var known []string
	for _, ip := range was {
		known = append(known, ip.IP)
	}
	at := fieldrules.Status.Child("podIPs")
	four, six := 0, 0
	for i, ip := range now {
		errs = append(errs, validation.IsValidIPForLegacyField(at.Field().Index(i), ip.IP, true, known)...)
		if addr, err := netip.ParseAddr(ip.IP); err != nil {
			continue
		} else if addr.Unmap().Is4() {
			four++
		} else {
			six++
		}
	}
	if four > 1 || six > 1 || len(now) > 2 {
		errs = append(errs, field.Invalid(at.Field(), fieldrules.Internal(now),
			"may specify no more than one IP for each IP family"))
	}
	return errs
}
