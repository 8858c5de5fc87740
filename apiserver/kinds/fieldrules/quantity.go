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

// ResourceRequirements checks the requests and limits of a container or a pod.
func ResourceRequirements(r *corev1.ResourceRequirements, fldPath *Path) field.ErrorList {
	at := fldPath.Child("limits")
	errs := ResourceList(r.Limits, &at)
	at = fldPath.Child("requests")
	errs = append(errs, ResourceList(r.Requests, &at)...)
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
	return ordered(errs)
}

// ResourceList checks the names and amounts of a list of resources of a container.
func ResourceList(list corev1.ResourceList, fldPath *Path) field.ErrorList {
	var errs field.ErrorList
	for name, q := range list {
		at := fldPath.Key(string(name))
		errs = append(errs, ContainerResource(name, &at)...)
		errs = append(errs, ResourceQuantity(name, q, &at)...)
		errs = append(errs, hugePages(name, q, &at)...)
	}
	return ordered(errs)
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
	if errs := QualifiedName(string(name), fldPath, ""); len(errs) > 0 {
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
	return strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix)
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

// standard reports whether a name without a domain is that of a resource of Kubernetes, which may be
// one that only quotas have.
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

// hugePages checks that a quantity of huge pages is a multiple of their size.
func hugePages(name corev1.ResourceName, q resource.Quantity, fldPath *Path) field.ErrorList {
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

// IsExtendedResource reports whether a name is that of an extended resource.
//
//upstream:pkg/apis/core/helper.IsExtendedResourceName
func IsExtendedResource(name string) bool {
	return !ofKubernetes(corev1.ResourceName(name)) && !strings.HasPrefix(name, corev1.DefaultResourceRequestsPrefix) &&
		len(validation.IsQualifiedName(corev1.DefaultResourceRequestsPrefix+name)) == 0
}

func Decimal[N number](n N) string { return strconv.FormatInt(int64(n), 10) }
