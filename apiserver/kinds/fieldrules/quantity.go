package fieldrules

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ResourceRequirements checks the requests and limits of a container or a pod. The function name checks the name of a
// resource. With anyPages, huge pages may be no multiple of their size.
//
//upstream:pkg/apis/core/validation.validateResourceRequirements
func ResourceRequirements(r *corev1.ResourceRequirements, fldPath *Path, name func(corev1.ResourceName, *Path) field.ErrorList,
	anyPages bool) field.ErrorList {
	at := fldPath.Child("limits")
	errs := resourceList(r.Limits, &at, name, anyPages)
	at = fldPath.Child("requests")
	errs = append(errs, resourceList(r.Requests, &at, name, anyPages)...)
	for name, request := range r.Requests {
		limit, limited := r.Limits[name]
		switch {
		case !limited:
			if !overcommit(name) {
				errs = append(errs, field.Required(fldPath.ChildField("limits"),
					"Limit must be set for non overcommitable resources"))
			}
		case !overcommit(name) && request.Cmp(limit) != 0:
			errs = append(errs, field.Invalid(at.Field(), request.String(),
				fmt.Sprintf("must be equal to %s limit of %s", name, limit.String())))
		case request.Cmp(limit) > 0:
			errs = append(errs, field.Invalid(at.Field(), request.String(),
				fmt.Sprintf("must be less than or equal to %s limit of %s", name, limit.String())))
		}
	}
	if (hasPages(r.Limits) || hasPages(r.Requests)) && !computes(r.Limits) && !computes(r.Requests) {
		errs = append(errs, field.Forbidden(fldPath.Field(), "HugePages require cpu or memory"))
	}
	return ordered(errs)
}

// hasPages reports whether a list has huge pages.
func hasPages(list corev1.ResourceList) bool {
	for name := range list {
		if strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix) {
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

// ResourceList checks the names and amounts of a list of resources of a container.
func ResourceList(list corev1.ResourceList, fldPath *Path) field.ErrorList {
	return ordered(resourceList(list, fldPath, ContainerResource, false))
}

func resourceList(list corev1.ResourceList, fldPath *Path, check func(corev1.ResourceName, *Path) field.ErrorList,
	anyPages bool) field.ErrorList {
	var errs field.ErrorList
	for name, q := range list {
		at := fldPath.Key(string(name))
		errs = append(errs, check(name, &at)...)
		errs = append(errs, ResourceQuantity(name, q, &at)...)
		if !anyPages {
			errs = append(errs, HugePages(name, q, &at)...)
		}
	}
	return errs
}

// ResourceQuantity checks the quantity of a resource, an integer for resources that cannot be
// divided.
func ResourceQuantity(name corev1.ResourceName, q resource.Quantity, fldPath *Path) field.ErrorList {
	errs := NonNegativeQuantity(q, fldPath, "")
	if whole(name) && q.MilliValue()%1000 != 0 {
		errs = append(errs, field.Invalid(fldPath.Field(), q.String(), "must be an integer"))
	}
	return errs
}

// ContainerResource checks the name of a resource of a container.
//
//upstream:pkg/apis/core/validation.ValidateContainerResourceName
func ContainerResource(name corev1.ResourceName, fldPath *Path) field.ErrorList {
	if native(name) {
		return nil
	}
	errs := ResourceName(name, fldPath)
	switch {
	case strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix) && !strings.Contains(string(name), "/"):
	case !strings.Contains(string(name), "/"):
		errs = append(errs, field.Invalid(fldPath.Field(), name, "must be a standard resource for containers"))
	case !ofKubernetes(name) && !IsExtendedResource(string(name)):
		errs = append(errs, field.Invalid(fldPath.Field(), name, "doesn't follow extended resource name standard"))
	}
	return errs
}

// ResourceName checks the name of a resource, which without a domain is one of Kubernetes.
//
//upstream:pkg/apis/core/validation.validateResourceName
func ResourceName(name corev1.ResourceName, fldPath *Path) field.ErrorList {
	if errs := QualifiedName(name, fldPath, ""); len(errs) > 0 {
		return errs
	}
	if !strings.Contains(string(name), "/") && !standard(name) {
		return field.ErrorList{field.Invalid(fldPath.Field(), name, "must be a standard resource type or fully qualified")}
	}
	return nil
}

// native reports whether a container resource is one of Kubernetes.
func native(name corev1.ResourceName) bool {
	switch name {
	case corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage:
		return true
	}
	return false
}

// overcommit reports whether the limit of a resource may be greater than the request.
//
//upstream:pkg/apis/core/helper.IsOvercommitAllowed
func overcommit(name corev1.ResourceName) bool {
	return ofKubernetes(name) && !strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix)
}

// ofKubernetes reports whether a resource has no domain, or Kubernetes's.
//
//upstream:pkg/apis/core/helper.IsNativeResource
func ofKubernetes(name corev1.ResourceName) bool {
	return !strings.Contains(string(name), "/") || strings.Contains(string(name), corev1.ResourceDefaultNamespacePrefix)
}

// whole reports whether quantities of a resource are integers: object counts and extended
// resources.
//
//upstream:pkg/apis/core/helper.IsIntegerResourceName
func whole(name corev1.ResourceName) bool {
	return slices.Contains(countedObjects, name) || IsExtendedResource(string(name))
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
	return slices.Contains(countedObjects, name) || strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix) ||
		strings.HasPrefix(string(name), corev1.ResourceRequestsHugePagesPrefix)
}

// HugePages checks that a quantity of huge pages is a multiple of their size.
func HugePages(name corev1.ResourceName, q resource.Quantity, fldPath *Path) field.ErrorList {
	size, ok := strings.CutPrefix(string(name), corev1.ResourceHugePagesPrefix)
	if !ok {
		return nil
	}
	page, err := resource.ParseQuantity(size)
	if err == nil && page.Value() > 0 && q.Value()%page.Value() == 0 && page.MilliValue()%1000 == 0 {
		return nil
	}
	return field.ErrorList{field.Invalid(fldPath.Field(), q.String(),
		fmt.Sprintf("%s is not positive integer multiple of %s", q.String(), name))}
}

// IsExtendedResource reports whether a name is the name of an extended resource.
//
//upstream:pkg/apis/core/helper.IsExtendedResourceName
func IsExtendedResource(name string) bool {
	return !ofKubernetes(corev1.ResourceName(name)) && !strings.HasPrefix(name, corev1.DefaultResourceRequestsPrefix) &&
		len(validation.IsQualifiedName(corev1.DefaultResourceRequestsPrefix+name)) == 0
}

func Decimal[N number](n N) string { return strconv.FormatInt(int64(n), 10) }
