package admission

import (
	"context"
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiserver/pkg/admission"
)

// denyExternalIPs rejects new external IPs of Services.
//
//upstream:plugin/pkg/admission/network/denyserviceexternalips.externalIPsDenierPlugin
type denyExternalIPs struct{ *admission.Handler }

var _ admission.ValidationInterface = denyExternalIPs{}

func newDenyExternalIPs(Environment) admission.Interface {
	return denyExternalIPs{admission.NewHandler(admission.Create, admission.Update)}
}

// Validate implements [admission.ValidationInterface].
func (denyExternalIPs) Validate(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	service, ok := a.GetObject().(*corev1.Service)
	if !ok || a.GetSubresource() != "" {
		return nil
	}
	var known []string
	if old, ok := a.GetOldObject().(*corev1.Service); ok {
		known = old.Spec.ExternalIPs
	}
	for _, ip := range service.Spec.ExternalIPs {
		if !slices.Contains(known, ip) {
			//lint:ignore ST1005 clients know this text of kube-apiserver
			return admission.NewForbidden(a, errors.New("Use of external IPs is denied by admission control"))
		}
	}
	return nil
}
