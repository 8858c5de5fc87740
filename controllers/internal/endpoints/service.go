// Package endpoints has the parts that the controllers of Endpoints and EndpointSlices share: the pods of a
// Service with what they contribute to its endpoints, and the distribution of endpoints to
// EndpointSlices.
package endpoints

import (
	"context"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	utilnet "k8s.io/utils/net"

	"flyball.dev/controllers/internal/claim"
	"flyball.dev/controllers/internal/podstate"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/event"
	"flyball.dev/ctrl/predicate"
)

// Selects reports whether the endpoints of a Service are pods. Those of other Services are created
// by somebody else, or there are none.
func Selects(svc *corev1.Service) bool {
	return svc.Spec.Selector != nil && svc.Spec.Type != corev1.ServiceTypeExternalName
}

// Pods returns the pods that a Service selects.
func Pods(ctx context.Context, c client.Reader, svc *corev1.Service) ([]*corev1.Pod, error) {
	list := &corev1.PodList{}
	if err := c.List(ctx, list, client.InNamespace(svc.Namespace), client.MatchingLabels(svc.Spec.Selector)); err != nil {
		return nil, err
	}
	pods := make([]*corev1.Pod, len(list.Items))
	for i := range list.Items {
		pods[i] = &list.Items[i]
	}
	return pods, nil
}

// NewSelectors returns an index of the Services by their selectors.
func NewSelectors() *claim.Selectors {
	return claim.NewSelectors(func(o client.Object) labels.Selector {
		svc := o.(*corev1.Service)
		if !Selects(svc) || len(svc.Spec.Selector) == 0 {
			return nil
		}
		return labels.SelectorFromValidatedSet(svc.Spec.Selector)
	})
}

// PodChanged is a predicate for the changes of pods that can change endpoints.
//
//upstream:k8s.io/endpointslice/util.podEndpointsChanged
var PodChanged = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	before, after := e.ObjectOld.(*corev1.Pod), e.ObjectNew.(*corev1.Pod)
	return before.UID != after.UID || before.Spec.NodeName != after.Spec.NodeName ||
		podstate.Ready(before) != podstate.Ready(after) || podstate.Finished(before) != podstate.Finished(after) ||
		(before.DeletionTimestamp == nil) != (after.DeletionTimestamp == nil) ||
		!maps.Equal(before.Labels, after.Labels) || !slices.Equal(before.Status.PodIPs, after.Status.PodIPs)
}}

// Included reports whether a pod is an endpoint: it has an address and has not terminated, nor, if
// those are not wanted, begun to terminate.
//
//upstream:k8s.io/endpointslice/util.ShouldPodBeInEndpoints
func Included(pod *corev1.Pod, terminating bool) bool {
	return !podstate.Finished(pod) && len(pod.Status.PodIPs) > 0 && (terminating || pod.DeletionTimestamp == nil)
}

// Address returns the pod's address of a family, or "" if it has none.
//
//upstream:k8s.io/endpointslice.getEndpointAddresses
func Address(pod *corev1.Pod, family corev1.IPFamily) string {
	for _, ip := range pod.Status.PodIPs {
		if utilnet.IsIPv6String(ip.IP) == (family == corev1.IPv6Protocol) {
			return ip.IP
		}
	}
	return ""
}

// Hostname returns the name under which a pod is published by a Service, or "" for none.
//
//upstream:k8s.io/endpointslice/util.ShouldSetHostname
func Hostname(svc *corev1.Service, pod *corev1.Pod) string {
	if pod.Spec.Subdomain != svc.Name {
		return ""
	}
	return pod.Spec.Hostname
}

// Reference returns the reference to a pod as a target.
func Reference(pod *corev1.Pod) *corev1.ObjectReference {
	return &corev1.ObjectReference{Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}
}

// Headless reports whether a Service has no address.
//
//upstream:k8s.io/endpointslice.isServiceIPSet
func Headless(svc *corev1.Service) bool {
	return svc.Spec.ClusterIP == corev1.ClusterIPNone || svc.Spec.ClusterIP == ""
}

// TargetPort returns the port of a pod to which a port of a Service refers. A name refers to the
// port of a container, or of a sidecar, with the same protocol.
//
//upstream:k8s.io/endpointslice.FindPort
func TargetPort(pod *corev1.Pod, port *corev1.ServicePort) (number int32, ok bool) {
	if port.TargetPort.Type == intstr.Int {
		return port.TargetPort.IntVal, true
	}
	containers := slices.Clone(pod.Spec.Containers)
	for _, c := range pod.Spec.InitContainers {
		if podstate.IsSidecar(&c) {
			containers = append(containers, c)
		}
	}
	for _, c := range containers {
		for _, p := range c.Ports {
			if p.Name == port.TargetPort.StrVal && p.Protocol == port.Protocol {
				return p.ContainerPort, true
			}
		}
	}
	return 0, false
}

// TriggerTime returns when the first change happened that is later than all times in earlier, in
// the format of the annotation [corev1.EndpointsLastChangeTriggerTime]: the creation of the Service
// or a change of a pod's readiness. It is "" if there is none, as after the deletion of a pod.
//
//upstream:k8s.io/endpointslice/util.TriggerTimeTracker.ComputeEndpointLastChangeTriggerTime
func TriggerTime(svc *corev1.Service, pods []*corev1.Pod, earlier ...string) string {
	var since, first time.Time
	for _, text := range earlier {
		if at, err := time.Parse(time.RFC3339Nano, text); err == nil && at.After(since) {
			since = at
		}
	}
	consider := func(at time.Time) {
		if at.After(since) && (first.IsZero() || at.Before(first)) {
			first = at
		}
	}
	consider(svc.CreationTimestamp.Time)
	for _, pod := range pods {
		if c := podstate.Condition(pod, corev1.PodReady); c != nil {
			consider(c.LastTransitionTime.Time)
		}
	}
	if first.IsZero() {
		return ""
	}
	return first.UTC().Format(time.RFC3339Nano)
}
