package quota

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
)

// pods measures pods. Their containers must set the requests and limits that a quota counts.
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

// required lists the resources that each container must set if a quota counts them.
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
	if r := pod.Spec.Resources; r != nil && (hasPodLevel(r.Requests) || hasPodLevel(r.Limits)) {
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
		isRequest && (strings.HasPrefix(requested, corev1.ResourceHugePagesPrefix) || IsExtended(corev1.ResourceName(requested)) ||
			strings.HasPrefix(requested, resourcev1.ResourceDeviceClassPrefix))
}

// IsExtended reports whether a resource is an extended resource.
//
//upstream:pkg/quota/v1/evaluator/core.isExtendedResourceNameForQuota
func IsExtended(name corev1.ResourceName) bool {
	return strings.Contains(string(name), "/") && !strings.Contains(string(name), corev1.ResourceDefaultNamespacePrefix) &&
		!strings.HasPrefix(string(name), corev1.DefaultResourceRequestsPrefix)
}

// podUsage returns the usage of a pod: its count, and its requests and limits until the pod ends or its deletion is
// overdue.
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
	requests := requirement(pod, requestsOf, allocated, actuated)
	limits := requirement(pod, limitsOf, actuatedLimits)
	add(requests, pod.Spec.Overhead)
	for name, quantity := range pod.Spec.Overhead {
		if limit, ok := limits[name]; ok && !limit.IsZero() {
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

func requestsOf(r *corev1.ResourceRequirements) corev1.ResourceList { return r.Requests }

func limitsOf(r *corev1.ResourceRequirements) corev1.ResourceList { return r.Limits }

func allocated(s *corev1.ContainerStatus) corev1.ResourceList { return s.AllocatedResources }

func actuated(s *corev1.ContainerStatus) corev1.ResourceList {
	if s.Resources != nil && s.Resources.Requests != nil {
		return s.Resources.Requests
	}
	return s.AllocatedResources
}

func actuatedLimits(s *corev1.ContainerStatus) corev1.ResourceList {
	if s.Resources == nil {
		return nil
	}
	return s.Resources.Limits
}

// requirement returns the requests or the limits of a whole pod without overhead. During a resize, a container counts
// with the maximum of its spec and the values in its status. Pod-level requests or limits replace the sums.
func requirement(pod *corev1.Pod, part func(*corev1.ResourceRequirements) corev1.ResourceList,
	states ...func(*corev1.ContainerStatus) corev1.ResourceList) corev1.ResourceList {
	desired := func(c *corev1.Container) corev1.ResourceList { return part(&c.Resources) }
	switch {
	case len(states) > 0 && isResizeInfeasible(pod):
		desired = func(*corev1.Container) corev1.ResourceList { return nil }
	case len(pod.Status.ContainerStatuses)+len(pod.Status.InitContainerStatuses) == 0:
		states = nil
	}
	total := aggregate(pod, desired)
	for _, state := range states {
		raise(total, aggregate(pod, func(c *corev1.Container) corev1.ResourceList {
			if s := statusOf(pod, c.Name); s != nil {
				if list := state(s); list != nil {
					return list
				}
			}
			return desired(c)
		}))
	}
	if pod.Spec.Resources != nil {
		for name, quantity := range part(pod.Spec.Resources) {
			if isPodLevel(name) {
				total[name] = quantity
			}
		}
	}
	return total
}

// isPodLevel reports whether a resource supports pod-level requests and limits.
func isPodLevel(name corev1.ResourceName) bool {
	return name == corev1.ResourceCPU || name == corev1.ResourceMemory || strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix)
}

func hasPodLevel(list corev1.ResourceList) bool {
	for name := range list {
		if isPodLevel(name) {
			return true
		}
	}
	return false
}

// isResizeInfeasible reports whether the node cannot resize the pod to its spec.
func isResizeInfeasible(pod *corev1.Pod) bool {
	i := slices.IndexFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodResizePending })
	return i >= 0 && pod.Status.Conditions[i].Reason == corev1.PodReasonInfeasible
}

// statusOf returns the status of a container, or nil.
func statusOf(pod *corev1.Pod, container string) *corev1.ContainerStatus {
	for _, list := range [][]corev1.ContainerStatus{pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses} {
		for i := range list {
			if list[i].Name == container {
				return &list[i]
			}
		}
	}
	return nil
}

// aggregate returns the sum of the needs of a pod's containers, including sidecars, and at least the need of the pod
// while any init container runs.
//
//upstream:k8s.io/component-helpers/resource.aggregateContainerResourcesByFn
func aggregate(pod *corev1.Pod, need func(*corev1.Container) corev1.ResourceList) corev1.ResourceList {
	total, sidecars, initial := corev1.ResourceList{}, corev1.ResourceList{}, corev1.ResourceList{}
	for i := range pod.Spec.Containers {
		add(total, need(&pod.Spec.Containers[i]))
	}
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		running := corev1.ResourceList{}
		add(running, need(c))
		add(running, sidecars)
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			add(total, need(c))
			sidecars = running
		}
		raise(initial, running)
	}
	raise(total, initial)
	return total
}

// Requirements returns the requests and the limits of a whole pod without overhead.
func Requirements(pod *corev1.Pod) (requests, limits corev1.ResourceList) {
	return requirement(pod, requestsOf), requirement(pod, limitsOf)
}

// compute returns requests and limits under the names in quotas, such as requests.cpu.
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

// isBestEffort reports whether a pod has neither requests nor limits of CPU and memory. Pod-level requirements replace
// the containers' requirements.
func isBestEffort(pod *corev1.Pod) bool {
	requests, limits := Requirements(pod)
	if r := pod.Spec.Resources; r != nil && (hasPodLevel(r.Requests) || hasPodLevel(r.Limits)) {
		requests, limits = r.Requests, r.Limits
	}
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
