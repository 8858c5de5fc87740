package check

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"flyball.dev/apiserver/kinds/fieldrules"
)

// Resources checks the requests and limits of a container, or of a pod as a whole. With anyPages, quantities of huge
// pages need be no multiples of the page size.
//
//upstream:pkg/apis/core/validation.validateResourceRequirements
func Resources(f Field, r *corev1.ResourceRequirements, pod, anyPages bool) {
	var errs field.ErrorList
	at := f.Into(&errs)
	amounts(at.Child("limits"), r.Limits, pod, anyPages)
	amounts(at.Child("requests"), r.Requests, pod, anyPages)
	for name, request := range r.Requests {
		switch limit, limited := r.Limits[name]; {
		case !limited:
			if !Overcommits(name) {
				at.Child("limits").Required("Limit must be set for non overcommitable resources")
			}
		case !Overcommits(name) && request.Cmp(limit) != 0:
			at.Child("requests").Invalidf(request.String(), "must be equal to %s limit of %s", name, limit.String())
		case request.Cmp(limit) > 0:
			at.Child("requests").Invalidf(request.String(), "must be less than or equal to %s limit of %s", name, limit.String())
		}
	}
	if (hasPages(r.Limits) || hasPages(r.Requests)) && !computes(r.Limits) && !computes(r.Requests) {
		at.Forbidden("HugePages require cpu or memory")
	}
	// Sorting the errors costs less than sorting the keys, as most lists have no errors.
	slices.SortStableFunc(errs, func(a, b *field.Error) int {
		return cmp.Or(strings.Compare(a.Field, b.Field), strings.Compare(a.Detail, b.Detail))
	})
	f.Report(errs...)
}

// amounts checks the names and the quantities of a resource list. The order of the errors is random.
func amounts(f Field, list corev1.ResourceList, pod, anyPages bool) {
	for name, q := range list {
		at := f.Key(string(name))
		if pod {
			podResource(at, name)
		} else {
			ContainerResource(at, name)
		}
		ResourceQuantity(at, name, q)
		if !anyPages && !WholePages(name, q) {
			at.Invalidf(q.String(), "%s is not positive integer multiple of %s", q.String(), name)
		}
	}
}

// hasPages reports whether a list has huge pages.
func hasPages(list corev1.ResourceList) bool {
	for name := range list {
		if IsHugePages(name) {
			return true
		}
	}
	return false
}

// computes reports whether a list has CPU or memory.
func computes(list corev1.ResourceList) bool {
	_, cpu := list[corev1.ResourceCPU]
	_, memory := list[corev1.ResourceMemory]
	return cpu || memory
}

// Quantity checks that a quantity is not negative.
func Quantity(f Field, q resource.Quantity) {
	if q.Sign() < 0 {
		f.Invalid(q.String(), apivalidation.IsNegativeErrorMsg)
	}
}

// ResourceQuantity checks the quantity of a resource, an integer for resources that cannot be
// divided.
func ResourceQuantity(f Field, name corev1.ResourceName, q resource.Quantity) {
	Quantity(f, q)
	if whole(name) && q.MilliValue()%1000 != 0 {
		f.Invalid(q.String(), "must be an integer")
	}
}

// ContainerResource checks the name of a resource of a container.
//
//upstream:pkg/apis/core/validation.ValidateContainerResourceName
func ContainerResource(f Field, name corev1.ResourceName) {
	if standardForContainers(name) {
		return
	}
	ResourceName(f, name)
	switch {
	case IsHugePages(name) && !strings.Contains(string(name), "/"):
	case !strings.Contains(string(name), "/"):
		f.Invalid(name, "must be a standard resource for containers")
	case !native(name) && !isExtended(name):
		f.Invalid(name, "doesn't follow extended resource name standard")
	}
}

//upstream:pkg/apis/core/validation.validatePodResourceName
func podResource(f Field, name corev1.ResourceName) {
	if ResourceName(f, name) && !IsPodResource(name) {
		f.NotSupported(name, string(corev1.ResourceCPU), corev1.ResourceHugePagesPrefix, string(corev1.ResourceMemory))
	}
}

// ResourceName checks the name of a resource, which without a domain is one of Kubernetes, and reports whether it is valid.
//
//upstream:pkg/apis/core/validation.validateResourceName
func ResourceName(f Field, name corev1.ResourceName) bool {
	if errs := fieldrules.QualifiedName(name, &f.Path, ""); len(errs) > 0 {
		f.Report(errs...)
		return false
	}
	if !strings.Contains(string(name), "/") && !standard(name) {
		f.Invalid(name, "must be a standard resource type or fully qualified")
		return false
	}
	return true
}

// IsPodResource reports whether a pod as a whole can have a resource.
func IsPodResource(name corev1.ResourceName) bool {
	return name == corev1.ResourceCPU || name == corev1.ResourceMemory || IsHugePages(name)
}

// IsHugePages reports whether a resource is huge pages of a size.
func IsHugePages(name corev1.ResourceName) bool {
	return strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix)
}

// WholePages reports whether a quantity is a multiple of the size, if the resource is huge pages.
func WholePages(name corev1.ResourceName, q resource.Quantity) bool {
	size, ok := strings.CutPrefix(string(name), corev1.ResourceHugePagesPrefix)
	if !ok {
		return true
	}
	page, err := resource.ParseQuantity(size)
	return err == nil && page.Value() > 0 && q.Value()%page.Value() == 0 && page.MilliValue()%1000 == 0
}

// standardForContainers reports whether a resource is CPU, memory or ephemeral storage.
func standardForContainers(name corev1.ResourceName) bool {
	switch name {
	case corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage:
		return true
	}
	return false
}

// Overcommits reports whether the limit of a resource may be greater than the request.
//
//upstream:pkg/apis/core/helper.IsOvercommitAllowed
func Overcommits(name corev1.ResourceName) bool {
	return native(name) && !IsHugePages(name)
}

// native reports whether the name of a resource has no domain, or a domain of Kubernetes.
//
//upstream:pkg/apis/core/helper.IsNativeResource
func native(name corev1.ResourceName) bool {
	return !strings.Contains(string(name), "/") || strings.Contains(string(name), corev1.ResourceDefaultNamespacePrefix)
}

// whole reports whether quantities of a resource are integers: object counts and extended
// resources.
//
//upstream:pkg/apis/core/helper.IsIntegerResourceName
func whole(name corev1.ResourceName) bool {
	return slices.Contains(countedObjects, name) || isExtended(name)
}

var countedObjects = []corev1.ResourceName{
	corev1.ResourcePods, corev1.ResourceQuotas, corev1.ResourceServices, corev1.ResourceReplicationControllers,
	corev1.ResourceSecrets, corev1.ResourceConfigMaps, corev1.ResourcePersistentVolumeClaims,
	corev1.ResourceServicesNodePorts, corev1.ResourceServicesLoadBalancers,
}

// standard reports whether a name without a domain names a resource of Kubernetes, which may be a
// resource that only quotas have.
//
//upstream:pkg/apis/core/helper.IsStandardResourceName
func standard(name corev1.ResourceName) bool {
	switch name {
	case corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage,
		corev1.ResourceRequestsCPU, corev1.ResourceRequestsMemory, corev1.ResourceRequestsEphemeralStorage,
		corev1.ResourceLimitsCPU, corev1.ResourceLimitsMemory, corev1.ResourceLimitsEphemeralStorage,
		corev1.ResourceStorage, corev1.ResourceRequestsStorage:
		return true
	}
	return slices.Contains(countedObjects, name) || IsHugePages(name) ||
		strings.HasPrefix(string(name), corev1.ResourceRequestsHugePagesPrefix)
}

// isExtended reports whether a name is the name of an extended resource.
//
//upstream:pkg/apis/core/helper.IsExtendedResourceName
func isExtended(name corev1.ResourceName) bool {
	return !native(name) && !strings.HasPrefix(string(name), corev1.DefaultResourceRequestsPrefix) &&
		len(validation.IsQualifiedName(corev1.DefaultResourceRequestsPrefix+string(name))) == 0
}
