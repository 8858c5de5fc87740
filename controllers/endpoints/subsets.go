package endpoints

//lint:file-ignore SA1019 The controller maintains the deprecated kind Endpoints.

import (
	"maps"
	"math"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/conversion"
	utilnet "k8s.io/utils/net"

	"flyball.dev/controllers/internal/endpoints"
	"flyball.dev/controllers/internal/podstate"
)

const (
	// managedByLabel and managedBy mark the Endpoints of this controller.
	//
	//upstream:pkg/controller/endpoint.LabelManagedBy
	managedByLabel = "endpoints.kubernetes.io/managed-by"
	//upstream:pkg/controller/endpoint.ControllerName
	managedBy = "endpoint-controller"
	// capacity is the highest number of addresses. Of more, those that are ready come first.
	//
	//upstream:pkg/controller/endpoint.maxCapacity
	capacity = 1000
	// truncated is the value of the annotation of Endpoints that lack addresses.
	//
	//upstream:pkg/controller/endpoint.truncated
	truncated = "truncated"
)

// endpointsOf returns the Endpoints of a Service, which selects the pods. current are the existing
// ones, or the zero value.
//
//upstream:pkg/controller/endpoint.Controller.syncService
func endpointsOf(svc *corev1.Service, pods []*corev1.Pod, current *corev1.Endpoints) *corev1.Endpoints {
	subsets := subsetsOf(svc, pods)
	if current.UID != "" && upToDate(svc, current, subsets) {
		return current
	}
	e := current.DeepCopy()
	e.Namespace, e.Name = svc.Namespace, svc.Name
	e.Labels = map[string]string{}
	maps.Copy(e.Labels, svc.Labels)
	e.Labels[managedByLabel] = managedBy
	delete(e.Labels, corev1.IsHeadlessService)
	if endpoints.Headless(svc) {
		e.Labels[corev1.IsHeadlessService] = ""
	}
	subsets, complete := truncate(subsets)
	if !equality.Semantic.DeepEqual(subsets, current.Subsets) || current.UID == "" {
		e.Subsets = subsets
		at := endpoints.TriggerTime(svc, pods, current.Annotations[corev1.EndpointsLastChangeTriggerTime])
		setAnnotation(e, corev1.EndpointsLastChangeTriggerTime, at)
	}
	if complete {
		setAnnotation(e, corev1.EndpointsOverCapacity, "")
	} else {
		setAnnotation(e, corev1.EndpointsOverCapacity, truncated)
	}
	return e
}

// upToDate reports whether Endpoints have the subsets, in any layout, with the right labels, and all their addresses.
//
//upstream:pkg/controller/endpoint.capacityAnnotationSetCorrectly
func upToDate(svc *corev1.Service, e *corev1.Endpoints, subsets []corev1.EndpointSubset) bool {
	_, over := e.Annotations[corev1.EndpointsOverCapacity]
	return !over && count(e.Subsets) <= capacity && labelled(e.Labels, svc.Labels) &&
		(sameSubsets(e.Subsets, subsets) || sameSubsets(endpoints.Repack(e.Subsets), subsets))
}

// labelled reports whether the labels are a Service's, and mark the Endpoints of this controller. The label of headless
// Services may be wrong.
//
//upstream:pkg/controller/endpoint.labelsCorrectForEndpoints
func labelled(labels, service map[string]string) bool {
	labels = maps.Clone(labels)
	mine := labels[managedByLabel] == managedBy
	delete(labels, managedByLabel)
	delete(labels, corev1.IsHeadlessService)
	return mine && maps.Equal(labels, service)
}

// ignoringVersions compares without the resource versions of references.
//
//upstream:pkg/controller/endpoint.semanticIgnoreResourceVersion
var ignoringVersions = conversion.EqualitiesOrDie(func(a, b corev1.ObjectReference) bool {
	a.ResourceVersion, b.ResourceVersion = "", ""
	return a == b
})

//upstream:pkg/controller/endpoint.endpointSubsetsEqualIgnoreResourceVersion
func sameSubsets(a, b []corev1.EndpointSubset) bool { return ignoringVersions.DeepEqual(a, b) }

// count returns the number of addresses.
func count(subsets []corev1.EndpointSubset) (n int) {
	for i := range subsets {
		n += len(subsets[i].Addresses) + len(subsets[i].NotReadyAddresses)
	}
	return n
}

// setAnnotation sets an annotation, or removes it if the value is "".
func setAnnotation(e *corev1.Endpoints, name, value string) {
	if value == "" {
		delete(e.Annotations, name)
		return
	}
	metav1.SetMetaDataAnnotation(&e.ObjectMeta, name, value)
}

// subsetsOf returns the addresses of the pods with their ports. A headless Service may have none.
//
//upstream:pkg/controller/endpoint.Controller.syncService
//upstream:pkg/controller/endpoint.addEndpointSubset
func subsetsOf(svc *corev1.Service, pods []*corev1.Pod) []corev1.EndpointSubset {
	p := endpoints.Packer{}
	for _, pod := range pods {
		a := addressOf(svc, pod)
		if a == nil || !endpoints.Included(pod, svc.Spec.PublishNotReadyAddresses) {
			continue
		}
		ready := svc.Spec.PublishNotReadyAddresses || podstate.Ready(pod)
		if len(svc.Spec.Ports) == 0 && svc.Spec.ClusterIP == corev1.ClusterIPNone {
			p.Add(endpoints.NoPort, a, ready)
		}
		for i := range svc.Spec.Ports {
			if port, ok := portOf(pod, &svc.Spec.Ports[i]); ok {
				p.Add(port, a, ready)
			}
		}
	}
	return p.Subsets()
}

// addressOf returns the address of a pod in the family of a Service, or nil.
//
//upstream:pkg/controller/endpoint.podToEndpointAddressForService
func addressOf(svc *corev1.Service, pod *corev1.Pod) *corev1.EndpointAddress {
	ip := utilnet.ParseIPSloppy(endpoints.Address(pod, familyOf(svc, pod)))
	if ip == nil {
		return nil
	}
	a := &corev1.EndpointAddress{IP: ip.String(), TargetRef: endpoints.Reference(pod), Hostname: endpoints.Hostname(svc, pod)}
	if pod.Spec.NodeName != "" {
		a.NodeName = &pod.Spec.NodeName
	}
	return a
}

// familyOf returns the family of a Service's address, or of the pod's if the Service has none.
//
//upstream:pkg/controller/endpoint.podToEndpointAddressForService
func familyOf(svc *corev1.Service, pod *corev1.Pod) corev1.IPFamily {
	if len(svc.Spec.IPFamilies) > 0 {
		return svc.Spec.IPFamilies[0]
	}
	ip := svc.Spec.ClusterIP
	if endpoints.Headless(svc) {
		ip = pod.Status.PodIP
	}
	if utilnet.IsIPv6String(ip) {
		return corev1.IPv6Protocol
	}
	return corev1.IPv4Protocol
}

// portOf returns the port of a pod for a port of a Service, if the pod has it.
//
//upstream:pkg/controller/endpoint.endpointPortFromServicePort
func portOf(pod *corev1.Pod, p *corev1.ServicePort) (corev1.EndpointPort, bool) {
	number, ok := endpoints.TargetPort(pod, p)
	return corev1.EndpointPort{Name: p.Name, Port: number, Protocol: p.Protocol, AppProtocol: p.AppProtocol}, ok
}

// truncate limits the number of addresses, and reports whether all are within the limit. Not ready addresses go first. Each
// subset loses the same part.
//
//upstream:pkg/controller/endpoint.truncateEndpoints
func truncate(subsets []corev1.EndpointSubset) (_ []corev1.EndpointSubset, complete bool) {
	ready := 0
	for i := range subsets {
		ready += len(subsets[i].Addresses)
	}
	total := count(subsets)
	if total <= capacity {
		return subsets, true
	}
	if ready > capacity {
		take := taker(ready, capacity)
		for i := range subsets {
			subsets[i].Addresses, subsets[i].NotReadyAddresses = take(subsets[i].Addresses), nil
		}
		return subsets, false
	}
	take := taker(total-ready, capacity-ready)
	for i := range subsets {
		subsets[i].NotReadyAddresses = take(subsets[i].NotReadyAddresses)
	}
	return subsets, false
}

// taker returns a function that takes the part room/total of each list, rounded up, until there is no room.
func taker(total, room int) func([]corev1.EndpointAddress) []corev1.EndpointAddress {
	left := room
	return func(list []corev1.EndpointAddress) []corev1.EndpointAddress {
		part := int(math.Ceil(float64(len(list)) / float64(total) * float64(room)))
		n := min(part, left, len(list))
		left -= n
		return list[:n]
	}
}
