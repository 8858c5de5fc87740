package core

import (
	corev1 "k8s.io/api/core/v1"

	"flyball.dev/apiserver/kinds/podspec"
)

// QOSClass returns the quality-of-service class of a pod, from the requests and the limits of CPU and memory.
//
//upstream:pkg/apis/core/helper/qos.ComputePodQOS
func QOSClass(s *corev1.PodSpec) corev1.PodQOSClass {
	if podspec.HasResources(s) {
		return qosOf(s.Resources)
	}
	class := corev1.PodQOSClass("")
	for _, list := range [...][]corev1.Container{s.InitContainers, s.Containers} {
		for i := range list {
			own := qosOf(&list[i].Resources)
			if class != "" && own != class {
				return corev1.PodQOSBurstable
			}
			class = own
		}
	}
	if class == "" {
		return corev1.PodQOSBestEffort
	}
	return class
}

// qosOf returns the class of a pod with these resources alone.
//
//upstream:pkg/apis/core/helper/qos.requirementsQOS
//upstream:pkg/apis/core/helper/qos.resourceQOS
func qosOf(r *corev1.ResourceRequirements) corev1.PodQOSClass {
	none, all := true, true
	for _, name := range [...]corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		request, limit := r.Requests[name], r.Limits[name]
		if !request.Equal(limit) {
			return corev1.PodQOSBurstable
		}
		none, all = none && limit.IsZero(), all && !limit.IsZero()
	}
	switch {
	case none:
		return corev1.PodQOSBestEffort
	case all:
		return corev1.PodQOSGuaranteed
	}
	return corev1.PodQOSBurstable
}
