package podspec

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"flyball.dev/apiserver/kinds/check"
	"flyball.dev/apiserver/kinds/fieldrules"
)

// podResources checks the resources of a pod as a whole, and that they suffice for the containers.
//
//upstream:pkg/apis/core/validation.validatePodResources
func (r *rules) podResources(at check.Field, s *corev1.PodSpec) {
	if s.OS != nil && s.OS.Name == corev1.Windows {
		at.Forbidden("may not be set for a windows pod")
		return
	}
	check.Forbid(at.Child("claims"), s.Resources.Claims != nil, "claims may not be set for Resources at pod-level")
	check.Resources(at, s.Resources, true, r.anyPages)
	sufficient(at, s)
}

// sufficient checks that the resources of a pod are not less than the resources of its containers.
//
//upstream:pkg/apis/core/validation.validatePodResourceConsistency
func sufficient(at check.Field, s *corev1.PodSpec) {
	const greater = "must be greater than or equal to aggregate container "
	requests := aggregate(s, func(c *corev1.Container) corev1.ResourceList { return c.Resources.Requests })
	for _, name := range fieldrules.SortedKeys(requests) {
		all := requests[name]
		if q, ok := s.Resources.Requests[name]; ok && all.Cmp(q) > 0 {
			at.Child("requests").Key(string(name)).Invalid(q.String(), greater+"requests of "+all.String())
		}
	}
	limits := aggregate(s, func(c *corev1.Container) corev1.ResourceList { return c.Resources.Limits })
	for _, name := range fieldrules.SortedKeys(limits) {
		all := limits[name]
		if q, ok := s.Resources.Limits[name]; ok && check.IsHugePages(name) && all.Cmp(q) > 0 {
			at.Child("limits").Key(string(name)).Invalid(q.String(), greater+"limits of "+all.String())
		}
	}
	for i := range s.Containers {
		own := s.Containers[i].Resources.Limits
		for _, name := range fieldrules.SortedKeys(own) {
			limit := own[name]
			if q, ok := s.Resources.Limits[name]; ok && limit.Cmp(q) > 0 {
				at.Child("containers").Index(i).Key(string(name)).Child("limits").Invalid(limit.String(),
					"must be less than or equal to pod limits of "+q.String())
			}
		}
	}
}

// aggregate returns what the containers of a pod have together: the sum of those that run at the same time, or an init
// container with the sidecars before it, whichever is more.
//
//upstream:k8s.io/component-helpers/resource.aggregateContainerResourcesByFn
func aggregate(s *corev1.PodSpec, of func(*corev1.Container) corev1.ResourceList) corev1.ResourceList {
	sum, peak, sidecars := corev1.ResourceList{}, corev1.ResourceList{}, corev1.ResourceList{}
	for i := range s.Containers {
		addAmounts(sum, of(&s.Containers[i]))
	}
	for i := range s.InitContainers {
		c := &s.InitContainers[i]
		if Sidecar(c) {
			addAmounts(sum, of(c))
			addAmounts(sidecars, of(c))
			raiseAmounts(peak, sidecars)
			continue
		}
		alone := sidecars.DeepCopy()
		addAmounts(alone, of(c))
		raiseAmounts(peak, alone)
	}
	raiseAmounts(sum, peak)
	return sum
}

func addAmounts(to, list corev1.ResourceList) {
	for name, q := range list {
		total, ok := to[name]
		if !ok {
			to[name] = q.DeepCopy()
			continue
		}
		total.Add(q)
		to[name] = total
	}
}

func raiseAmounts(to, list corev1.ResourceList) {
	for name, q := range list {
		if old, ok := to[name]; !ok || old.Cmp(q) < 0 {
			to[name] = q.DeepCopy()
		}
	}
}

// CompleteResources completes the resources of a pod as a whole from the resources of its containers. Admission runs
// before it, as plugins add containers.
//
//upstream:pkg/api/pod.DefaultPodLevelResources
func CompleteResources(s *corev1.PodSpec) {
	r := s.Resources
	if r == nil || len(r.Requests)+len(r.Limits) == 0 {
		return
	}
	limits := aggregate(s, func(c *corev1.Container) corev1.ResourceList { return c.Resources.Limits })
	for name, q := range limits {
		if _, requested := r.Requests[name]; check.IsHugePages(name) && !requested {
			addMissing(&r.Limits, name, q)
		}
	}
	requests := aggregate(s, func(c *corev1.Container) corev1.ResourceList { return c.Resources.Requests })
	for name, q := range requests {
		if check.IsPodResource(name) && !check.IsHugePages(name) {
			addMissing(&r.Requests, name, q)
		}
	}
	for name, q := range r.Limits {
		if check.IsPodResource(name) {
			addMissing(&r.Requests, name, q)
		}
	}
	for name, request := range r.Requests {
		limit, limited := limits[name]
		if !limited || !check.IsPodResource(name) || !limitedEverywhere(s, name) {
			continue
		}
		if request.Cmp(limit) > 0 {
			limit = request
		}
		addMissing(&r.Limits, name, limit)
	}
}

// limitedEverywhere reports whether all containers have a limit of a resource.
//
//upstream:pkg/api/pod.aggregateContainerLimits
func limitedEverywhere(s *corev1.PodSpec, name corev1.ResourceName) bool {
	without := func(c corev1.Container) bool {
		_, ok := c.Resources.Limits[name]
		return !ok
	}
	return !slices.ContainsFunc(s.Containers, without) && !slices.ContainsFunc(s.InitContainers, without) &&
		len(s.EphemeralContainers) == 0
}

// addMissing adds a quantity to a list that does not have it.
func addMissing(to *corev1.ResourceList, name corev1.ResourceName, q resource.Quantity) {
	if _, ok := (*to)[name]; ok {
		return
	}
	if *to == nil {
		*to = corev1.ResourceList{}
	}
	(*to)[name] = q.DeepCopy()
}

// HasResources reports whether a pod has resources as a whole.
//
//upstream:pkg/apis/core/helper.IsPodLevelResourcesSet
func HasResources(s *corev1.PodSpec) bool {
	if s.Resources == nil {
		return false
	}
	for _, list := range [...]corev1.ResourceList{s.Resources.Requests, s.Resources.Limits} {
		for name := range list {
			if check.IsPodResource(name) {
				return true
			}
		}
	}
	return false
}
