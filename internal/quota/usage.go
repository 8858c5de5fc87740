package quota

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/admission"
)

// counted returns the resource in a name of the form count/RESOURCE.GROUP.
func counted(name corev1.ResourceName) (schema.GroupResource, bool) {
	r, ok := strings.CutPrefix(string(name), "count/")
	return schema.ParseGroupResource(r), ok
}

func serviceResources(name corev1.ResourceName) bool {
	switch name {
	case "count/services", corev1.ResourceServices, corev1.ResourceServicesNodePorts, corev1.ResourceServicesLoadBalancers:
		return true
	}
	return false
}

// serviceUsage returns the usage of a service, including its allocated node ports.
//
//upstream:pkg/quota/v1/evaluator/core.serviceEvaluator
func serviceUsage(obj runtime.Object) (corev1.ResourceList, error) {
	s, ok := obj.(*corev1.Service)
	if !ok {
		return nil, fmt.Errorf("expect *v1.Service, got %T", obj)
	}
	balancers, ports := 0, 0
	switch s.Spec.Type {
	case corev1.ServiceTypeNodePort:
		ports = len(s.Spec.Ports)
	case corev1.ServiceTypeLoadBalancer:
		balancers = 1
		without := s.Spec.AllocateLoadBalancerNodePorts != nil && !*s.Spec.AllocateLoadBalancerNodePorts
		for _, p := range s.Spec.Ports {
			if !without || p.NodePort != 0 {
				ports++
			}
		}
	}
	return corev1.ResourceList{
		"count/services": count(1), corev1.ResourceServices: count(1),
		corev1.ResourceServicesNodePorts: count(ports), corev1.ResourceServicesLoadBalancers: count(balancers),
	}, nil
}

// ofStorageClass joins the name of a storage class and a resource.
const ofStorageClass = ".storageclass.storage.k8s.io/"

//upstream:pkg/quota/v1/evaluator/core.pvcResources
func claimResources(name corev1.ResourceName) bool {
	if _, after, ok := strings.Cut(string(name), ofStorageClass); ok {
		name = corev1.ResourceName(after)
	}
	return name == "count/persistentvolumeclaims" || name == corev1.ResourcePersistentVolumeClaims || name == corev1.ResourceRequestsStorage
}

// claimUsage returns the usage of a claim: its count and its storage, in total and for its storage class.
//
//upstream:pkg/quota/v1/evaluator/core.pvcEvaluator.Usage
func claimUsage(obj runtime.Object) (corev1.ResourceList, error) {
	c, ok := obj.(*corev1.PersistentVolumeClaim)
	if !ok {
		return nil, fmt.Errorf("expect *v1.PersistentVolumeClaim, got %T", obj)
	}
	used := corev1.ResourceList{"count/persistentvolumeclaims": count(1), corev1.ResourcePersistentVolumeClaims: count(1)}
	if request, ok := c.Spec.Resources.Requests[corev1.ResourceStorage]; ok {
		if allocated, ok := c.Status.AllocatedResources[corev1.ResourceStorage]; ok && allocated.Cmp(request) > 0 {
			request = allocated
		}
		request = request.DeepCopy()
		request.RoundUp(0) // whole bytes
		used[corev1.ResourceRequestsStorage] = request
	}
	class := c.Annotations[corev1.BetaStorageClassAnnotation]
	if class == "" && c.Spec.StorageClassName != nil {
		class = *c.Spec.StorageClassName
	}
	if class != "" {
		for _, name := range []corev1.ResourceName{corev1.ResourcePersistentVolumeClaims, corev1.ResourceRequestsStorage} {
			if quantity, ok := used[name]; ok {
				used[corev1.ResourceName(class+ofStorageClass)+name] = quantity
			}
		}
	}
	return used, nil
}

// claims measures persistent volume claims. The status of a claim has its allocated storage.
type claims struct{ evaluator }

func (c claims) Handles(a admission.Attributes) bool {
	if a.GetSubresource() != "status" {
		return c.evaluator.Handles(a)
	}
	return a.GetObject() != nil && a.GetOldObject() != nil
}

// claimInScope reports whether a claim has one of the scope's volume attributes classes.
//
//upstream:pkg/quota/v1/evaluator/core.pvcMatchesScopeFunc
func claimInScope(s corev1.ScopedResourceSelectorRequirement, obj runtime.Object) (bool, error) {
	c, ok := obj.(*corev1.PersistentVolumeClaim)
	if !ok || s.ScopeName != corev1.ResourceQuotaScopeVolumeAttributesClass {
		return false, nil
	}
	names := sets.New[string]()
	for _, name := range []*string{c.Spec.VolumeAttributesClassName, c.Status.CurrentVolumeAttributesClassName} {
		if name != nil && *name != "" {
			names.Insert(*name)
		}
	}
	if m := c.Status.ModifyVolumeStatus; m != nil && m.TargetVolumeAttributesClassName != "" {
		names.Insert(m.TargetVolumeAttributesClassName)
	}
	return selects(s, sets.List(names))
}

// selects reports whether a scope selects an object with any of the names.
//
//upstream:pkg/quota/v1/evaluator/core.pvcMatchesSelector
func selects(s corev1.ScopedResourceSelectorRequirement, names []string) (bool, error) {
	operator := map[corev1.ScopeSelectorOperator]selection.Operator{
		corev1.ScopeSelectorOpIn: selection.In, corev1.ScopeSelectorOpNotIn: selection.NotIn,
		corev1.ScopeSelectorOpExists: selection.Exists, corev1.ScopeSelectorOpDoesNotExist: selection.DoesNotExist,
	}[s.Operator]
	requirement, err := labels.NewRequirement(string(s.ScopeName), operator, s.Values)
	if err != nil {
		return false, fmt.Errorf("failed to parse and convert selector: %w", err)
	}
	if len(names) == 0 {
		return requirement.Matches(labels.Set{}), nil
	}
	return slices.ContainsFunc(names, func(name string) bool {
		return requirement.Matches(labels.Set{string(s.ScopeName): name})
	}), nil
}

// add adds quantities to a list.
func add(list, more corev1.ResourceList) {
	for name, quantity := range more {
		sum := list[name].DeepCopy()
		sum.Add(quantity)
		list[name] = sum
	}
}

// raise sets each quantity of a list to the maximum of both lists.
func raise(list, least corev1.ResourceList) {
	for name, quantity := range least {
		if given, ok := list[name]; !ok || given.Cmp(quantity) < 0 {
			list[name] = quantity.DeepCopy()
		}
	}
}
