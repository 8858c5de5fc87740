package plans

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	upstream "k8s.io/kubernetes/pkg/controller/endpointslice"
	"k8s.io/utils/ptr"

	"flyball.dev/controllers/endpointslice"
	"flyball.dev/ctrl/client"
	"flyball.dev/test/mirror/random"
)

// TestEndpointSlices compares the EndpointSlices of Services.
func TestEndpointSlices(t *testing.T) {
	comparison{
		name:   "endpointslice",
		worlds: 1000,
		atLeast: map[string]int{"create endpointslices.discovery.k8s.io": 30, "update endpointslices.discovery.k8s.io": 10,
			"delete endpointslices.discovery.k8s.io": 10},
		kinds: []client.Object{&corev1.Service{}, &corev1.Pod{}, &corev1.Node{}, &discoveryv1.EndpointSlice{}},
		add:   endpointslice.AddToManager,
		run: func(ctx context.Context, c kubernetes.Interface, f informers.SharedInformerFactory) (func(context.Context), error) {
			e := upstream.NewController(ctx, f.Core().V1().Pods(), f.Core().V1().Services(), f.Core().V1().Nodes(), f.Discovery().V1().EndpointSlices(), 100, c, 0)
			return func(ctx context.Context) { e.Run(ctx, 1) }, nil
		},
		order:    orderSlices,
		generate: generateService,
	}.compare(t)
}

// orderSlices orders the ports and the endpoints of slices, and names the slices in the order of their contents. Kubernetes
// reads all of them from maps.
func orderSlices(w *world) {
	byText := map[string][]*discoveryv1.EndpointSlice{}
	for k, o := range w.objects {
		slice, ok := o.(*discoveryv1.EndpointSlice)
		if !ok {
			continue
		}
		delete(w.objects, k)
		slice = slice.DeepCopy()
		slices.SortFunc(slice.Ports, func(a, b discoveryv1.EndpointPort) int { return strings.Compare(a.String(), b.String()) })
		slices.SortFunc(slice.Endpoints, func(a, b discoveryv1.Endpoint) int {
			return cmp.Or(slices.Compare(a.Addresses, b.Addresses), strings.Compare(ptr.Deref(a.Hostname, ""), ptr.Deref(b.Hostname, "")),
				strings.Compare(fmt.Sprint(a.TargetRef), fmt.Sprint(b.TargetRef)))
		})
		slice.Name, slice.UID, slice.CreationTimestamp = "", "", metav1.Time{}
		content := *slice
		content.Annotations = maps.Clone(slice.Annotations)
		delete(content.Annotations, corev1.EndpointsLastChangeTriggerTime) // as Kubernetes remembers it
		byText[text(&content)] = append(byText[text(&content)], slice)
	}
	n := 0
	for _, content := range slices.Sorted(maps.Keys(byText)) {
		for _, slice := range byText[content] {
			slice.Name = fmt.Sprint("slice", n)
			w.objects[keyOf(slice)] = slice
			n++
		}
	}
}

func generateService(s *random.Source) ([]client.Object, client.Object, func(string, key) error) {
	ns := namespace()
	svc := &corev1.Service{ObjectMeta: object(s, ns, "x"), Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "x"}, ClusterIP: "10.0.0.1",
		Type: corev1.ServiceTypeClusterIP, PublishNotReadyAddresses: s.Chance(20), IPFamilies: random.Pick(s, []corev1.IPFamily{corev1.IPv4Protocol},
			[]corev1.IPFamily{corev1.IPv6Protocol}, []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol})}}
	svc.Labels = random.Pick(s, nil, map[string]string{"l": "1"}, map[string]string{"l": "1", "endpointslice.kubernetes.io/skip-mirror": "true"})
	if s.Chance(20) {
		svc.Spec.ClusterIP = corev1.ClusterIPNone
	}
	if s.Chance(8) {
		svc.Spec.Selector = nil
	}
	if s.Chance(40) {
		svc.Spec.TrafficDistribution = ptr.To(random.Pick(s, corev1.ServiceTrafficDistributionPreferClose, corev1.ServiceTrafficDistributionPreferSameZone,
			corev1.ServiceTrafficDistributionPreferSameNode))
	}
	for i := range s.IntN(3) {
		p := corev1.ServicePort{Name: fmt.Sprint("port", i), Port: int32(80 + i), Protocol: random.Pick(s, corev1.ProtocolTCP, corev1.ProtocolUDP),
			TargetPort: random.Pick(s, intstr.FromInt32(8080), intstr.FromString("http"), intstr.FromString("none"))}
		if s.Chance(20) {
			p.AppProtocol = ptr.To("kubernetes.io/h2c")
		}
		svc.Spec.Ports = append(svc.Spec.Ports, p)
	}
	forbidden := apierrors.NewForbidden(discoveryv1.Resource("endpointslices"), ns, errors.New("a policy"))
	if s.Chance(50) {
		forbidden.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	}
	refuse := refusing(s, forbidden, "create endpointslices", "update endpointslices", "delete endpointslices")
	if deleted(s, svc); svc.DeletionTimestamp != nil || refuse != nil {
		for i := range svc.Spec.Ports { // of endpoints with several ports, Kubernetes keeps any in a slice
			svc.Spec.Ports[i].TargetPort = intstr.FromInt32(8080)
		}
	}
	objects := []client.Object{svc}
	for _, name := range []string{"a", "b"} {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "node"}}
		if s.Chance(80) {
			node.Labels = map[string]string{corev1.LabelTopologyZone: random.Pick(s, "z1", "z2")}
		}
		objects = append(objects, node)
	}
	var endpoints []discoveryv1.Endpoint
	for i := range s.IntN(8) {
		meta := object(s, ns, fmt.Sprint("p", i))
		meta.Labels = labelled(s)
		pod := newPod(s, meta)
		pod.ResourceVersion = ""
		if refuse != nil { // Kubernetes reports a pod without a node together with what is refused
			pod.Spec.NodeName = random.Pick(s, "a", "b")
		}
		if s.Chance(85) {
			pod.Status.PodIP = fmt.Sprint("10.1.0.", i)
			pod.Status.PodIPs = []corev1.PodIP{{IP: pod.Status.PodIP}}
			if s.Chance(50) {
				pod.Status.PodIPs = append(pod.Status.PodIPs, corev1.PodIP{IP: fmt.Sprint("fd00::", i)})
			}
		}
		if s.Chance(70) {
			pod.Spec.Containers[0].Ports = []corev1.ContainerPort{{Name: "http", ContainerPort: random.Pick[int32](s, 8080, 9090), Protocol: corev1.ProtocolTCP}}
		}
		if s.Chance(20) {
			pod.Spec.Hostname, pod.Spec.Subdomain = "host", random.Pick(s, "x", "y")
		}
		objects = append(objects, pod)
		if pod.Status.PodIP != "" && s.Chance(50) {
			endpoints = append(endpoints, discoveryv1.Endpoint{Addresses: []string{pod.Status.PodIP}, NodeName: ptr.To(random.Pick(s, "a", "b")),
				TargetRef:  &corev1.ObjectReference{Kind: "Pod", Namespace: ns, Name: pod.Name, UID: pod.UID},
				Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true), Serving: ptr.To(true), Terminating: ptr.To(false)}})
			if s.Chance(30) {
				endpoints[len(endpoints)-1].Hints = &discoveryv1.EndpointHints{ForZones: []discoveryv1.ForZone{{Name: random.Pick(s, "z1", "z2")}}}
			}
		}
	}
	// At most one slice of each type is the controller's. Kubernetes takes any of several.
	for i, addressType := range []discoveryv1.AddressType{discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6, discoveryv1.AddressTypeIPv4} {
		if s.Chance(50) {
			continue
		}
		slice := &discoveryv1.EndpointSlice{ObjectMeta: object(s, ns, fmt.Sprint("x-", i)), AddressType: addressType}
		slice.Labels = map[string]string{discoveryv1.LabelServiceName: "x", discoveryv1.LabelManagedBy: "endpointslice-controller.k8s.io"}
		if i == 2 {
			slice.Labels[discoveryv1.LabelManagedBy] = "me"
		}
		if s.Chance(40) {
			maps.Copy(slice.Labels, svc.Labels)
		}
		if addressType == discoveryv1.AddressTypeIPv4 {
			slice.Endpoints = endpoints
		}
		slice.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(svc, kindOf(svc))}
		if s.Chance(5) {
			slice.DeletionTimestamp, slice.Finalizers = ptr.To(metav1.NewTime(ago(s))), []string{"example.com/f"}
		}
		for _, p := range svc.Spec.Ports {
			if s.Chance(90) {
				slice.Ports = append(slice.Ports, discoveryv1.EndpointPort{Name: &p.Name, Port: ptr.To(random.Pick[int32](s, 8080, 8080, 9090)), Protocol: &p.Protocol, AppProtocol: p.AppProtocol})
			}
		}
		// An empty slice of an earlier Service is replaced, as since Kubernetes 1.38.
		if s.Chance(8) && len(slice.Ports)+len(slice.Endpoints) > 0 {
			slice.OwnerReferences[0].UID = "earlier"
		}
		objects = append(objects, slice)
	}
	return objects, svc, refuse
}
