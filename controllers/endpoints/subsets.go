package endpoints

//lint:file-ignore SA1019 The controller maintains the deprecated kind Endpoints.

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
	e := current.DeepCopy()
	e.Namespace, e.Name = svc.Namespace, svc.Name
	e.Labels = map[string]string{}
	maps.Copy(e.Labels, svc.Labels)
	e.Labels[managedByLabel] = managedBy
	delete(e.Labels, corev1.IsHeadlessService)
	if endpoints.Headless(svc) {
		e.Labels[corev1.IsHeadlessService] = ""
	}
	subsets, complete := truncate(subsetsOf(svc, pods))
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

// setAnnotation sets an annotation, or removes it if the value is "".
func setAnnotation(e *corev1.Endpoints, name, value string) {
	if value == "" {
		delete(e.Annotations, name)
		return
	}
	metav1.SetMetaDataAnnotation(&e.ObjectMeta, name, value)
}

// subsetsOf returns the addresses of the pods, grouped by their ports, in a canonical order.
//
//upstream:pkg/controller/endpoint.Controller.syncService
//upstream:pkg/controller/endpoint.addEndpointSubset
//upstream:pkg/api/v1/endpoints.RepackSubsets
func subsetsOf(svc *corev1.Service, pods []*corev1.Pod) []corev1.EndpointSubset {
	family := corev1.IPv4Protocol
	if len(svc.Spec.IPFamilies) > 0 {
		family = svc.Spec.IPFamilies[0]
	}
	byPorts := map[string]*corev1.EndpointSubset{}
	for _, pod := range pods {
		address := endpoints.Address(pod, family)
		if address == "" || !endpoints.Included(pod, svc.Spec.PublishNotReadyAddresses) {
			continue
		}
		ports := portsOf(svc, pod)
		if len(ports) == 0 && len(svc.Spec.Ports) > 0 {
			continue // the pod has none of the ports
		}
		key, err := json.Marshal(ports)
		if err != nil {
			panic(err) // a port has only scalars
		}
		subset := byPorts[string(key)]
		if subset == nil {
			subset = &corev1.EndpointSubset{Ports: ports}
			byPorts[string(key)] = subset
		}
		a := addressOf(svc, pod, address)
		if svc.Spec.PublishNotReadyAddresses || podstate.Ready(pod) {
			subset.Addresses = append(subset.Addresses, a)
		} else {
			subset.NotReadyAddresses = append(subset.NotReadyAddresses, a)
		}
	}
	var subsets []corev1.EndpointSubset
	for _, key := range slices.Sorted(maps.Keys(byPorts)) {
		subset := byPorts[key]
		slices.SortFunc(subset.Addresses, compareAddresses)
		slices.SortFunc(subset.NotReadyAddresses, compareAddresses)
		subsets = append(subsets, *subset)
	}
	return subsets
}

func compareAddresses(a, b corev1.EndpointAddress) int {
	return cmp.Or(strings.Compare(a.IP, b.IP), strings.Compare(string(a.TargetRef.UID), string(b.TargetRef.UID)))
}

// addressOf returns the address of a pod.
//
//upstream:pkg/controller/endpoint.podToEndpointAddressForService
func addressOf(svc *corev1.Service, pod *corev1.Pod, ip string) corev1.EndpointAddress {
	a := corev1.EndpointAddress{IP: ip, TargetRef: endpoints.Reference(pod), Hostname: endpoints.Hostname(svc, pod)}
	if pod.Spec.NodeName != "" {
		a.NodeName = &pod.Spec.NodeName
	}
	return a
}

// portsOf returns the ports of a pod for a Service, without those that the pod does not have.
//
//upstream:pkg/controller/endpoint.endpointPortFromServicePort
func portsOf(svc *corev1.Service, pod *corev1.Pod) (ports []corev1.EndpointPort) {
	for i := range svc.Spec.Ports {
		p := &svc.Spec.Ports[i]
		if number, ok := endpoints.TargetPort(pod, p); ok {
			ports = append(ports, corev1.EndpointPort{
				Name: p.Name, Port: number, Protocol: p.Protocol, AppProtocol: p.AppProtocol,
			})
		}
	}
	slices.SortFunc(ports, func(a, b corev1.EndpointPort) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), cmp.Compare(a.Port, b.Port))
	})
	return ports
}

// truncate limits the number of addresses, and reports whether all are within the limit.
//
//upstream:pkg/controller/endpoint.truncateEndpoints
func truncate(subsets []corev1.EndpointSubset) (_ []corev1.EndpointSubset, complete bool) {
	left := capacity
	take := func(list []corev1.EndpointAddress) []corev1.EndpointAddress {
		n := min(len(list), left)
		left -= n
		complete = complete && n == len(list)
		return list[:n]
	}
	complete = true
	for i := range subsets {
		subsets[i].Addresses = take(subsets[i].Addresses)
	}
	for i := range subsets {
		subsets[i].NotReadyAddresses = take(subsets[i].NotReadyAddresses)
	}
	return slices.DeleteFunc(subsets, func(s corev1.EndpointSubset) bool {
		return len(s.Addresses)+len(s.NotReadyAddresses) == 0
	}), complete
}
