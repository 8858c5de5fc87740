package endpointslice

import (
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/utils/net"
	"k8s.io/utils/ptr"

	"flyball.dev/controllers/internal/endpoints"
	"flyball.dev/controllers/internal/podstate"
)

// limit is the highest number of endpoints in a slice.
//
//upstream:pkg/controller/endpointslice/config/v1alpha1.RecommendedDefaultEndpointSliceControllerConfiguration
const limit = 100

// slicesOf returns the EndpointSlices of a Service, which selects the pods: at least one for each of
// its address families. A pod on a node that does not exist is an endpoint only if addresses that
// are not ready are published.
//
//upstream:k8s.io/endpointslice.Reconciler.Reconcile
//upstream:k8s.io/endpointslice.Reconciler.reconcileByAddressType
func slicesOf(svc *corev1.Service, pods []*corev1.Pod, zones map[string]string,
	existing []*discoveryv1.EndpointSlice) *endpoints.Slices {
	var triggers []string
	for _, slice := range existing {
		triggers = append(triggers, slice.Annotations[corev1.EndpointsLastChangeTriggerTime])
	}
	s := &endpoints.Slices{Limit: limit, Meta: endpoints.SlicesMeta(svc,
		metav1.NewControllerRef(svc, corev1.SchemeGroupVersion.WithKind("Service")), managedBy,
		endpoints.TriggerTime(svc, pods, triggers...))}
	delete(s.Meta.Labels, corev1.IsHeadlessService)
	if endpoints.Headless(svc) {
		s.Meta.Labels[corev1.IsHeadlessService] = ""
	}
	families := svc.Spec.IPFamilies
	if len(families) == 0 {
		families = []corev1.IPFamily{corev1.IPv4Protocol}
	}
	for _, family := range families {
		addressType := discoveryv1.AddressType(family)
		for _, pod := range pods {
			if !endpoints.Included(pod, true) {
				continue
			}
			ports := portsOf(svc, pod)
			s.Groups.Add(addressType, ports)
			_, known := zones[pod.Spec.NodeName]
			if address := endpoints.Address(pod, family); address != "" && (known || svc.Spec.PublishNotReadyAddresses) {
				s.Groups.Add(addressType, ports, endpointOf(svc, pod, address, zones[pod.Spec.NodeName]))
			}
		}
		s.Types = append(s.Types, addressType)
	}
	return s
}

// endpointOf returns the endpoint of a pod.
//
//upstream:k8s.io/endpointslice.podToEndpoint
func endpointOf(svc *corev1.Service, pod *corev1.Pod, address, zone string) discoveryv1.Endpoint {
	serving, terminating := podstate.Ready(pod), pod.DeletionTimestamp != nil
	e := discoveryv1.Endpoint{
		Addresses: []string{utilnet.ParseIPSloppy(address).String()},
		Conditions: discoveryv1.EndpointConditions{
			Ready:   new(svc.Spec.PublishNotReadyAddresses || serving && !terminating),
			Serving: &serving, Terminating: &terminating,
		},
		TargetRef: endpoints.Reference(pod),
	}
	if pod.Spec.NodeName != "" {
		e.NodeName = &pod.Spec.NodeName
	}
	if zone != "" {
		e.Zone = &zone
	}
	if name := endpoints.Hostname(svc, pod); name != "" {
		e.Hostname = &name
	}
	if *e.Conditions.Ready {
		e.Hints = hintsOf(svc, &e)
	}
	return e
}

// hintsOf returns the hints of an endpoint for the traffic distribution of the Service.
//
//upstream:k8s.io/endpointslice/trafficdist.ReconcileHints
//upstream:k8s.io/endpointslice/trafficdist.preferCloseHeuristic.update
func hintsOf(svc *corev1.Service, e *discoveryv1.Endpoint) *discoveryv1.EndpointHints {
	hints := &discoveryv1.EndpointHints{}
	switch ptr.Deref(svc.Spec.TrafficDistribution, "") {
	case corev1.ServiceTrafficDistributionPreferSameNode:
		if e.NodeName != nil {
			hints.ForNodes = []discoveryv1.ForNode{{Name: *e.NodeName}}
		}
	case corev1.ServiceTrafficDistributionPreferClose, corev1.ServiceTrafficDistributionPreferSameZone:
	default:
		return nil
	}
	if e.Zone != nil {
		hints.ForZones = []discoveryv1.ForZone{{Name: *e.Zone}}
	}
	if hints.ForNodes == nil && hints.ForZones == nil {
		return nil
	}
	return hints
}

// portsOf returns the ports of a pod for a Service, without those that the pod does not have.
//
//upstream:k8s.io/endpointslice.getEndpointPorts
func portsOf(svc *corev1.Service, pod *corev1.Pod) []discoveryv1.EndpointPort {
	ports := []discoveryv1.EndpointPort{}
	for i := range svc.Spec.Ports {
		p := &svc.Spec.Ports[i]
		if number, ok := endpoints.TargetPort(pod, p); ok {
			ports = append(ports, discoveryv1.EndpointPort{
				Name: &p.Name, Port: &number, Protocol: &p.Protocol, AppProtocol: p.AppProtocol,
			})
		}
	}
	return ports
}
