package admission

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/admission"
)

// limitAntiAffinity rejects pods with a required anti-affinity for any topology key except the host name.
//
//upstream:plugin/pkg/admission/antiaffinity.Plugin
type limitAntiAffinity struct{ *admission.Handler }

var _ admission.ValidationInterface = limitAntiAffinity{}

func newLimitAntiAffinity(Environment) admission.Interface {
	return limitAntiAffinity{admission.NewHandler(admission.Create, admission.Update)}
}

// Validate implements [admission.ValidationInterface].
func (limitAntiAffinity) Validate(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	pod := podOf(a)
	if pod == nil || pod.Spec.Affinity == nil || pod.Spec.Affinity.PodAntiAffinity == nil {
		return nil
	}
	for _, term := range pod.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution {
		if term.TopologyKey != corev1.LabelHostname {
			return errors.NewForbidden(a.GetResource().GroupResource(), pod.Name,
				fmt.Errorf("affinity.PodAntiAffinity.RequiredDuringScheduling has TopologyKey %v but only key %v is allowed",
					term.TopologyKey, corev1.LabelHostname))
		}
	}
	return nil
}
