package quota

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
)

// countClaims is the name for the number of resource claims.
const countClaims corev1.ResourceName = "count/resourceclaims.resource.k8s.io"

// deviceResources reports whether a name is for the usage of resource claims.
//
//upstream:pkg/quota/v1/evaluator/core.claimEvaluator.MatchingResources
func deviceResources(name corev1.ResourceName) bool {
	return name == countClaims || strings.HasSuffix(string(name), corev1.ResourceClaimsPerClass)
}

// deviceUsage returns the usage of a resource claim: its count, and the maximum number of devices of each class.
//
//upstream:pkg/quota/v1/evaluator/core.claimEvaluator.Usage
func deviceUsage(obj runtime.Object) (corev1.ResourceList, error) {
	claim, ok := obj.(*resourcev1.ResourceClaim)
	if !ok {
		return nil, fmt.Errorf("expect *v1.ResourceClaim, got %T", obj)
	}
	used := corev1.ResourceList{countClaims: count(1)}
	for _, request := range claim.Spec.Devices.Requests {
		alternatives := corev1.ResourceList{}
		for _, r := range request.FirstAvailable {
			if n := devices(r.AllocationMode, r.Count); n.Sign() > 0 {
				raise(alternatives, ofClass(r.DeviceClassName, n))
			}
		}
		switch {
		case len(request.FirstAvailable) > 0:
			add(used, alternatives)
		case request.Exactly != nil:
			add(used, ofClass(request.Exactly.DeviceClassName, devices(request.Exactly.AllocationMode, request.Exactly.Count)))
		}
	}
	for name, quantity := range used.DeepCopy() {
		if class, ok := strings.CutSuffix(string(name), corev1.ResourceClaimsPerClass); ok && class != "" && quantity.Sign() > 0 {
			used[corev1.ResourceName(corev1.ResourceImplicitExtendedClaimsPerClass+class)] = quantity
		}
	}
	return used, nil
}

// ofClass returns a usage of n devices of a class.
func ofClass(class string, n resource.Quantity) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceName(class + corev1.ResourceClaimsPerClass): n}
}

// devices returns the maximum number of devices that a request can get.
func devices(mode resourcev1.DeviceAllocationMode, exact int64) resource.Quantity {
	switch mode {
	case resourcev1.DeviceAllocationModeExactCount:
		return *resource.NewQuantity(exact, resource.DecimalSI)
	case resourcev1.DeviceAllocationModeAll:
		return count(resourcev1.AllocationResultsMaxSize)
	}
	return count(0)
}
