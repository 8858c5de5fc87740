package core

import (
	"context"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"flyball.dev/apiserver/kinds/fieldrules"
)

// preparePodStatus keeps the quality-of-service class of a status that has none.
func preparePodStatus(_ context.Context, p, old *corev1.Pod) {
	if p.Status.QOSClass == "" {
		p.Status.QOSClass = old.Status.QOSClass
	}
}

// validatePodIPs checks that new addresses of a pod are valid, and that there is at most one of each
// family.
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
