package plans

//lint:file-ignore SA1019 The controllers maintain the deprecated kind Endpoints.

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	upstream "k8s.io/kubernetes/pkg/controller/endpoint"
	"k8s.io/utils/ptr"

	"flyball.dev/controllers/endpoints"
	"flyball.dev/ctrl/client"
	"flyball.dev/test/mirror/random"
)

// TestEndpoints compares the Endpoints of Services, in the same order of subsets, ports and addresses.
func TestEndpoints(t *testing.T) {
	comparison{
		name:   "endpoints",
		worlds: 2000,
		atLeast: map[string]int{"create endpoints": 20, "update endpoints": 20, "delete endpoints": 1, "several subsets": 5, "not ready": 20, "hostname": 3,
			"IPv6": 10, "over capacity": 1, "no ports": 1, "terminating": 1},
		features: endpointsFeatures,
		kinds:    []client.Object{&corev1.Service{}, &corev1.Pod{}, &corev1.Endpoints{}},
		add:      endpoints.AddToManager,
		run: func(ctx context.Context, c kubernetes.Interface, f informers.SharedInformerFactory) (func(context.Context), error) {
			e := upstream.NewEndpointController(ctx, f.Core().V1().Pods(), f.Core().V1().Services(), f.Core().V1().Endpoints(), c, 0)
			return func(ctx context.Context) { e.Run(ctx, 1) }, nil
		},
		order:    annotate,
		generate: generateEndpoints,
	}.compare(t)
}

// annotate gives Endpoints an annotation, so that annotations differ one by one.
func annotate(w *world) {
	for k, o := range w.objects {
		if e, ok := o.(*corev1.Endpoints); ok {
			e = e.DeepCopy()
			metav1.SetMetaDataAnnotation(&e.ObjectMeta, "example.com/any", "")
			w.objects[k] = e
		}
	}
}

func endpointsFeatures(w *world) (found []string) {
	for _, o := range w.list(corev1.Resource("endpoints")) {
		e := o.(*corev1.Endpoints)
		if len(e.Subsets) > 1 {
			found = append(found, "several subsets")
		}
		if e.Annotations[corev1.EndpointsOverCapacity] != "" {
			found = append(found, "over capacity")
		}
		for _, s := range e.Subsets {
			if len(s.NotReadyAddresses) > 0 {
				found = append(found, "not ready")
			}
			if len(s.Ports) == 0 {
				found = append(found, "no ports")
			}
			for _, a := range append(s.Addresses, s.NotReadyAddresses...) {
				if a.Hostname != "" {
					found = append(found, "hostname")
				}
				if strings.Contains(a.IP, ":") {
					found = append(found, "IPv6")
				}
				if a.TargetRef == nil {
					continue
				}
				if pod := w.objects[key{corev1.Resource("pods"), types.NamespacedName{Namespace: a.TargetRef.Namespace, Name: a.TargetRef.Name}}]; pod != nil && pod.GetDeletionTimestamp() != nil {
					found = append(found, "terminating")
				}
			}
		}
	}
	return found
}

func generateEndpoints(s *random.Source) ([]client.Object, client.Object, func(string, key) error) {
	ns := namespace()
	// The name is another for each world: client-go drops events, and Kubernetes' events of creations have no namespace.
	svc := &corev1.Service{ObjectMeta: object(s, ns, ns), Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "x"}, Type: corev1.ServiceTypeClusterIP,
		ClusterIP: random.Pick(s, "10.0.0.1", "10.0.0.1", "10.0.0.1", "fd00::1:1", corev1.ClusterIPNone, ""), PublishNotReadyAddresses: s.Chance(20)}}
	if svc.Labels = random.Pick(s, nil, map[string]string{"l": "1"}); s.Chance(5) {
		svc.Labels = map[string]string{corev1.IsHeadlessService: "", "endpoints.kubernetes.io/managed-by": "me"}
	}
	svc.Spec.IPFamilies = random.Pick(s, nil, []corev1.IPFamily{corev1.IPv4Protocol}, []corev1.IPFamily{corev1.IPv6Protocol},
		[]corev1.IPFamily{corev1.IPv6Protocol, corev1.IPv4Protocol}, []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol})
	switch s.IntN(20) {
	case 0:
		svc.Spec.Selector = nil
	case 1:
		svc.Spec.Type = corev1.ServiceTypeExternalName
	case 2:
		svc.Spec.Selector = map[string]string{}
	}
	for i := range s.IntN(4) {
		p := corev1.ServicePort{Name: fmt.Sprint("port", i), Port: int32(80 + i), Protocol: random.Pick(s, corev1.ProtocolTCP, corev1.ProtocolTCP, corev1.ProtocolUDP),
			TargetPort: random.Pick(s, intstr.FromInt32(8080), intstr.FromString("http"), intstr.FromString("http"), intstr.FromString("metrics"), intstr.FromString("none"))}
		if s.Chance(20) {
			p.AppProtocol = ptr.To("kubernetes.io/h2c")
		}
		svc.Spec.Ports = append(svc.Spec.Ports, p)
	}
	deleted(s, svc)
	objects := []client.Object{svc}
	pods, many := s.IntN(8), generations%25 == 0
	if many { // more than the capacity, whatever else is chosen
		pods = 1001 + s.IntN(400)
		svc.Spec.Selector, svc.Spec.Type, svc.DeletionTimestamp, svc.Finalizers = map[string]string{"app": "x"}, corev1.ServiceTypeClusterIP, nil, nil
		svc.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol}
		svc.Spec.Ports = append(svc.Spec.Ports, corev1.ServicePort{Name: "any", Port: 90, Protocol: corev1.ProtocolTCP, TargetPort: intstr.FromInt32(9090)})
	}
	for i := range pods {
		pod := newEndpointPod(s, ns, i)
		if many {
			pod.Labels, pod.Status.Phase, pod.DeletionTimestamp, pod.Finalizers = map[string]string{"app": "x"}, corev1.PodRunning, nil, nil
			pod.Spec.NodeName, pod.Status.PodIPs = "a", []corev1.PodIP{{IP: fmt.Sprintf("10.1.%d.%d", i/250, i%250)}}
		}
		objects = append(objects, pod)
	}
	if s.Chance(60) {
		objects = append(objects, newEndpoints(s, svc, objects))
	}
	object := client.Object(svc)
	if !many && s.Chance(5) { // the Service is gone
		objects = objects[1:]
	}
	if len(svc.Labels) > 1 || many { // Kubernetes writes again what is there
		return objects, object, nil
	}
	forbidden := apierrors.NewForbidden(corev1.Resource("endpoints"), ns, errors.New("a policy"))
	if s.Chance(50) {
		forbidden.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	}
	return objects, object, refusing(s, forbidden, "create endpoints", "update endpoints")
}

// newEndpointPod returns a pod that may be an endpoint. A pod with an address has a node: without one, Kubernetes writes an
// empty nodeName, which the API server refuses.
func newEndpointPod(s *random.Source, ns string, i int) *corev1.Pod {
	meta := object(s, ns, fmt.Sprint("p", i))
	meta.Labels = labelled(s)
	pod := newPod(s, meta)
	if s.Chance(90) {
		pod.Spec.NodeName = random.Pick(s, "a", "b")
		v4, v6 := corev1.PodIP{IP: fmt.Sprintf("10.1.%d.%d", i/250, i%250)}, corev1.PodIP{IP: fmt.Sprintf("fd00::%x", i)}
		if s.Chance(10) { // other texts of the same, and a shared one
			v4, v6 = corev1.PodIP{IP: random.Pick(s, "010.001.000.001", "10.1.0.1")}, corev1.PodIP{IP: fmt.Sprintf("FD00:0::%x", i)}
		}
		pod.Status.PodIPs = random.Pick(s, []corev1.PodIP{v4}, []corev1.PodIP{v4}, []corev1.PodIP{v4, v6}, []corev1.PodIP{v6, v4}, []corev1.PodIP{v6})
		pod.Status.PodIP = pod.Status.PodIPs[0].IP
	}
	ports := []corev1.ContainerPort{{Name: "http", ContainerPort: random.Pick[int32](s, 8080, 8080, 9090), Protocol: random.Pick(s, corev1.ProtocolTCP, corev1.ProtocolTCP, corev1.ProtocolUDP)}}
	if s.Chance(50) {
		ports = append(ports, corev1.ContainerPort{Name: "metrics", ContainerPort: 9100, Protocol: corev1.ProtocolTCP})
	}
	if s.Chance(80) {
		pod.Spec.Containers[0].Ports = ports
	} else if len(pod.Spec.InitContainers) > 0 {
		pod.Spec.InitContainers[0].Ports = ports
	}
	if s.Chance(20) {
		pod.Spec.Hostname, pod.Spec.Subdomain = random.Pick(s, "host", ""), random.Pick(s, ns, "y")
	}
	return pod
}

// newEndpoints returns Endpoints as an earlier run, another version or somebody has left them.
func newEndpoints(s *random.Source, svc *corev1.Service, objects []client.Object) *corev1.Endpoints {
	e := &corev1.Endpoints{ObjectMeta: object(s, svc.Namespace, svc.Name)}
	e.Labels = map[string]string{}
	for k, v := range svc.Labels {
		e.Labels[k] = v
	}
	if s.Chance(80) {
		e.Labels["endpoints.kubernetes.io/managed-by"] = "endpoint-controller"
	}
	if s.Chance(20) {
		e.Labels[random.Pick(s, "other", corev1.IsHeadlessService)] = ""
	}
	if s.Chance(15) {
		e.Annotations = map[string]string{random.Pick(s, corev1.EndpointsOverCapacity, "note"): "warning"}
	}
	for range s.IntN(3) {
		var subset corev1.EndpointSubset
		for _, p := range svc.Spec.Ports {
			if s.Chance(80) {
				subset.Ports = append(subset.Ports, corev1.EndpointPort{Name: p.Name, Port: random.Pick[int32](s, 8080, 9090), Protocol: p.Protocol, AppProtocol: p.AppProtocol})
			}
		}
		for _, o := range objects {
			pod, ok := o.(*corev1.Pod)
			if !ok || len(pod.Status.PodIPs) == 0 || s.Chance(30) {
				continue
			}
			a := corev1.EndpointAddress{IP: pod.Status.PodIPs[0].IP, NodeName: &pod.Spec.NodeName,
				TargetRef: &corev1.ObjectReference{Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: random.Pick(s, "", "7")}}
			if s.Chance(70) {
				subset.Addresses = append(subset.Addresses, a)
			} else {
				subset.NotReadyAddresses = append(subset.NotReadyAddresses, a)
			}
		}
		e.Subsets = append(e.Subsets, subset)
	}
	return e
}
