package quota

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
)

// pods measures pods. Their containers must have the requests and limits that a quota counts.
//
//upstream:pkg/quota/v1/evaluator/core.podEvaluator
type pods struct{ evaluator }

func (pods) Handles(a admission.Attributes) bool {
	switch a.GetSubresource() {
	case "":
		if a.GetOperation() != admission.Update {
			return a.GetOperation() == admission.Create
		}
		pod, ok := a.GetObject().(*corev1.Pod)
		old, wasPod := a.GetOldObject().(*corev1.Pod)
		return ok && wasPod && isTerminating(pod) != isTerminating(old)
	case "resize":
		return a.GetOperation() == admission.Update
	}
	return false
}

// required are the resources that each container must have if a quota counts them.
var required = []corev1.ResourceName{
	corev1.ResourceCPU, corev1.ResourceLimitsCPU, corev1.ResourceLimitsMemory, corev1.ResourceMemory,
	corev1.ResourceRequestsCPU, corev1.ResourceRequestsMemory,
}

// Constraints checks that the containers of a pod have the requests and limits that the quota counts.
func (pods) Constraints(names []corev1.ResourceName, obj runtime.Object) error {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return fmt.Errorf("expect *v1.Pod, got %T", obj)
	}
	if pod.Spec.Resources != nil {
		return nil
	}
	missing := map[corev1.ResourceName][]string{}
	for _, c := range slices.Concat(pod.Spec.Containers, pod.Spec.InitContainers) {
		used := compute(c.Resources.Requests, c.Resources.Limits)
		for _, name := range required {
			if _, has := used[name]; !has && slices.Contains(names, name) && !slices.Contains(missing[name], c.Name) {
				missing[name] = append(missing[name], c.Name)
			}
		}
	}
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(missing)) {
		slices.Sort(missing[name])
		parts = append(parts, fmt.Sprintf("%s for: %s", name, strings.Join(missing[name], ",")))
	}
	if len(parts) == 0 {
		return nil
	}
	return fmt.Errorf("must specify %s", strings.Join(parts, "; "))
}

//upstream:pkg/quota/v1/evaluator/core.podResources
//upstream:pkg/quota/v1/evaluator/core.podResourcePrefixes
func podResources(name corev1.ResourceName) bool {
	switch name {
	case "count/pods", corev1.ResourcePods, corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage,
		corev1.ResourceRequestsCPU, corev1.ResourceRequestsMemory, corev1.ResourceRequestsEphemeralStorage,
		corev1.ResourceLimitsCPU, corev1.ResourceLimitsMemory, corev1.ResourceLimitsEphemeralStorage:
		return true
	}
	requested, isRequest := strings.CutPrefix(string(name), corev1.DefaultResourceRequestsPrefix)
	return strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix) ||
		isRequest && (strings.HasPrefix(requested, corev1.ResourceHugePagesPrefix) || IsExtended(corev1.ResourceName(requested)))
}

// IsExtended reports whether a resource is not one of Kubernetes' own.
//
//upstream:pkg/quota/v1/evaluator/core.isExtendedResourceNameForQuota
func IsExtended(name corev1.ResourceName) bool {
	return strings.Contains(string(name), "/") && !strings.Contains(string(name), corev1.ResourceDefaultNamespacePrefix)
}

// podUsage counts a pod, and its requests and limits until it ends or its deletion is overdue.
//
//upstream:pkg/quota/v1/evaluator/core.PodUsageFunc
func podUsage(obj runtime.Object) (corev1.ResourceList, error) {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return nil, fmt.Errorf("expect *v1.Pod, got %T", obj)
	}
	used := corev1.ResourceList{"count/pods": count(1)}
	if ended(pod, time.Now()) {
		return used, nil
	}
	requests := requirement(pod, func(r *corev1.ResourceRequirements) corev1.ResourceList { return r.Requests })
	limits := requirement(pod, func(r *corev1.ResourceRequirements) corev1.ResourceList { return r.Limits })
	add(requests, pod.Spec.Overhead)
	for name, quantity := range pod.Spec.Overhead {
		if limit, ok := limits[name]; ok {
			limit.Add(quantity)
			limits[name] = limit
		}
	}
	maps.Copy(used, compute(requests, limits))
	used[corev1.ResourcePods] = count(1)
	return used, nil
}

//upstream:pkg/quota/v1/evaluator/core.QuotaV1Pod
func ended(pod *corev1.Pod, now time.Time) bool {
	if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return true
	}
	if pod.DeletionTimestamp == nil || pod.DeletionGracePeriodSeconds == nil {
		return false
	}
	return now.After(pod.DeletionTimestamp.Add(time.Duration(*pod.DeletionGracePeriodSeconds) * time.Second))
}

// requirement returns the requests or the limits of a pod without overhead: the sum over its containers and sidecars, or the
// need of an init container with the sidecars before it if that is more. Requests and limits of the pod replace the sums.
func requirement(pod *corev1.Pod, part func(*corev1.ResourceRequirements) corev1.ResourceList) corev1.ResourceList {
	total, sidecars, initial := corev1.ResourceList{}, corev1.ResourceList{}, corev1.ResourceList{}
	for i := range pod.Spec.Containers {
		add(total, part(&pod.Spec.Containers[i].Resources))
	}
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		running := corev1.ResourceList{}
		add(running, part(&c.Resources))
		add(running, sidecars)
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			add(total, part(&c.Resources))
			sidecars = running
		}
		raise(initial, running)
	}
	raise(total, initial)
	if pod.Spec.Resources != nil {
		for name, quantity := range part(pod.Spec.Resources) {
			if name == corev1.ResourceCPU || name == corev1.ResourceMemory || strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix) {
				total[name] = quantity
			}
		}
	}
	return total
}

// Requirements returns the requests and the limits of a whole pod without overhead.
func Requirements(pod *corev1.Pod) (requests, limits corev1.ResourceList) {
	return requirement(pod, func(r *corev1.ResourceRequirements) corev1.ResourceList { return r.Requests }),
		requirement(pod, func(r *corev1.ResourceRequirements) corev1.ResourceList { return r.Limits })
}

// compute returns requests and limits by the names of quotas, such as requests.cpu.
//
//upstream:pkg/quota/v1/evaluator/core.podComputeUsageHelper
func compute(requests, limits corev1.ResourceList) corev1.ResourceList {
	used := corev1.ResourceList{}
	for name, quantity := range requests {
		switch {
		case name == corev1.ResourceCPU, name == corev1.ResourceMemory, name == corev1.ResourceEphemeralStorage,
			strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix):
			used[name] = quantity
			used[corev1.DefaultResourceRequestsPrefix+name] = quantity
		case IsExtended(name):
			used[corev1.DefaultResourceRequestsPrefix+name] = quantity
		}
	}
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage} {
		if quantity, ok := limits[name]; ok {
			used["limits."+name] = quantity
		}
	}
	return used
}

//upstream:pkg/quota/v1/evaluator/core.IsTerminating
func isTerminating(pod *corev1.Pod) bool {
	return pod.Spec.ActiveDeadlineSeconds != nil && *pod.Spec.ActiveDeadlineSeconds >= 0
}

// podInScope reports whether a pod is in a scope of a quota.
//
//upstream:pkg/quota/v1/evaluator/core.podMatchesScopeFunc
func podInScope(s corev1.ScopedResourceSelectorRequirement, obj runtime.Object) (bool, error) {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return false, fmt.Errorf("expect *v1.Pod, got %T", obj)
	}
	switch s.ScopeName {
	case corev1.ResourceQuotaScopeTerminating:
		return isTerminating(pod), nil
	case corev1.ResourceQuotaScopeNotTerminating:
		return !isTerminating(pod), nil
	case corev1.ResourceQuotaScopeBestEffort:
		return isBestEffort(pod), nil
	case corev1.ResourceQuotaScopeNotBestEffort:
		return !isBestEffort(pod), nil
	case corev1.ResourceQuotaScopePriorityClass:
		if pod.Spec.PriorityClassName == "" {
			return selects(s, nil)
		}
		return selects(s, []string{pod.Spec.PriorityClassName})
	case corev1.ResourceQuotaScopeCrossNamespacePodAffinity:
		return crossesNamespaces(pod), nil
	}
	return false, nil
}

// isBestEffort reports whether a pod has neither requests nor limits of CPU and memory.
//
//upstream:pkg/quota/v1/evaluator/core.isBestEffort
func isBestEffort(pod *corev1.Pod) bool {
	requests, limits := Requirements(pod)
	for _, list := range []corev1.ResourceList{requests, limits} {
		if !list.Cpu().IsZero() || !list.Memory().IsZero() {
			return false
		}
	}
	return true
}

// crossesNamespaces reports whether a pod's affinity depends on pods in other namespaces.
//
//upstream:pkg/quota/v1/evaluator/core.usesCrossNamespacePodAffinity
func crossesNamespaces(pod *corev1.Pod) bool {
	a := pod.Spec.Affinity
	if a == nil {
		return false
	}
	crosses := func(t corev1.PodAffinityTerm) bool { return len(t.Namespaces) > 0 || t.NamespaceSelector != nil }
	weighted := func(t corev1.WeightedPodAffinityTerm) bool { return crosses(t.PodAffinityTerm) }
	if p := a.PodAffinity; p != nil && (slices.ContainsFunc(p.RequiredDuringSchedulingIgnoredDuringExecution, crosses) ||
		slices.ContainsFunc(p.PreferredDuringSchedulingIgnoredDuringExecution, weighted)) {
		return true
	}
	p := a.PodAntiAffinity
	return p != nil && (slices.ContainsFunc(p.RequiredDuringSchedulingIgnoredDuringExecution, crosses) ||
		slices.ContainsFunc(p.PreferredDuringSchedulingIgnoredDuringExecution, weighted))
}
