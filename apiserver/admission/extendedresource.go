package admission

import (
	"context"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apiserver/pkg/admission"

	"flyball.dev/internal/quota"
)

// extendedResourceToleration adds a toleration for each extended resource that a pod requests. The taint has the name
// of the resource, so only such pods run on tainted nodes.
//
//upstream:plugin/pkg/admission/extendedresourcetoleration.plugin
type extendedResourceToleration struct{ *admission.Handler }

var _ admission.MutationInterface = extendedResourceToleration{}

func newExtendedResourceToleration(Environment) admission.Interface {
	return extendedResourceToleration{admission.NewHandler(admission.Create, admission.Update)}
}

// Admit implements [admission.MutationInterface].
func (extendedResourceToleration) Admit(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	pod := podOf(a)
	if pod == nil {
		return nil
	}
	requested := map[corev1.ResourceName]bool{}
	for _, c := range slices.Concat(pod.Spec.Containers, pod.Spec.InitContainers) {
		for name := range c.Resources.Requests {
			requested[name] = quota.IsExtended(name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(requested)) {
		if requested[name] {
			setToleration(pod, corev1.Toleration{Key: string(name), Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule})
		}
	}
	return nil
}

// setToleration adds a toleration, or replaces matching ones.
//
//upstream:pkg/apis/core/helper.AddOrUpdateTolerationInPod
func setToleration(pod *corev1.Pod, t corev1.Toleration) {
	replaced := false
	for i := range pod.Spec.Tolerations {
		given := &pod.Spec.Tolerations[i]
		if apiequality.Semantic.DeepEqual(*given, t) {
			return
		}
		if t.MatchToleration(given) {
			*given, replaced = t, true
		}
	}
	if !replaced {
		pod.Spec.Tolerations = append(pod.Spec.Tolerations, t)
	}
}
