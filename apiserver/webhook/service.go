package webhook

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
)

// LoopbackPort is the annotation of a Service that a process on the control plane's machine serves. The value is the
// port on 127.0.0.1 for all ports of the Service. Endpoints cannot express this, because loopback addresses are invalid
// there. The annotation has an effect for the ports of [Services].LoopbackPorts only, or else everybody who may write
// Services could reach the ports of the machine.
const LoopbackPort = "flyball.dev/loopback-port"

// Services resolves services to the addresses of their endpoints. It reads the objects with each call, so a change
// takes effect at once.
type Services struct {
	// Storage returns the storage of a resource, or nil if the resource is not served.
	Storage func(schema.GroupVersionResource) rest.Storage
	// Simulated, if not nil, reports whether a node is simulated, so that no process listens at the addresses of its pods.
	// The host of such an endpoint is a name that [Dialer] knows.
	Simulated func(*corev1.Node) bool
	// SimulatedAddress, if not nil, reports whether the pods of simulated nodes get an address.
	SimulatedAddress func(netip.Addr) bool
	// LoopbackPorts are the ports that Services may have in the annotation [LoopbackPort].
	LoopbackPorts []uint16
}

// ResolveEndpoint returns the URL of a service at one of its ports. The scheme is https, and the address depends on the
// service:
//
//   - With the annotation [LoopbackPort], it is that port on 127.0.0.1.
//   - For the type ExternalName, it is the external name with the given port.
//   - For any other service, it is a ready endpoint of its EndpointSlices: an address, or the name of a simulated pod if
//     there is no other. An endpoint that is no pod, with an address of a simulated node or pod, does not count. There is no
//     network with cluster IPs, so ResolveEndpoint selects an endpoint like kube-proxy.
//
// ResolveEndpoint returns an error if the service does not exist, has no such port, has no endpoint, or has an annotation
// that is invalid or not permitted.
//
//upstream:k8s.io/apiserver/pkg/util/proxy.ResolveEndpoint
func (s Services) ResolveEndpoint(namespace, name string, port int32) (*url.URL, error) {
	service, err := s.Get(namespace, name)
	if err != nil {
		return nil, err
	}
	if value, ok := service.Annotations[LoopbackPort]; ok {
		n, err := strconv.ParseUint(value, 10, 16)
		switch {
		case err != nil || n == 0:
			return nil, fmt.Errorf("annotation %s of service %q: %q is not a port", LoopbackPort, name, value)
		case !slices.Contains(s.LoopbackPorts, uint16(n)):
			return nil, fmt.Errorf("annotation %s of service %q: the starter of the control plane has not permitted the port %d, "+
				"as docs/webhooks.md#services explains", LoopbackPort, name, n)
		}
		return &url.URL{Scheme: "https", Host: net.JoinHostPort("127.0.0.1", strconv.Itoa(int(n)))}, nil
	}
	switch service.Spec.Type {
	case corev1.ServiceTypeExternalName:
		return &url.URL{Scheme: "https", Host: net.JoinHostPort(service.Spec.ExternalName, strconv.Itoa(int(port)))}, nil
	case corev1.ServiceTypeClusterIP, corev1.ServiceTypeNodePort, corev1.ServiceTypeLoadBalancer:
	default:
		return nil, fmt.Errorf("unsupported service type %q", service.Spec.Type)
	}
	i := slices.IndexFunc(service.Spec.Ports, func(p corev1.ServicePort) bool { return p.Port == port })
	if i < 0 {
		return nil, errors.NewServiceUnavailable(fmt.Sprintf("no service port %d found for service %q", port, name))
	}
	host, err := s.endpoint(namespace, name, service.Spec.Ports[i].Name)
	if err != nil {
		return nil, err
	}
	return &url.URL{Scheme: "https", Host: host}, nil
}

// endpoint returns the address of a random ready endpoint of a service, or the name of a simulated pod if there is no
// other.
//
//upstream:k8s.io/apiserver/pkg/util/proxy.RandomEndpoint
func (s Services) endpoint(namespace, name, port string) (string, error) {
	endpointSlices, err := s.EndpointSlices(namespace, name)
	if err != nil {
		return "", err
	}
	var ready, simulated []string
	invented := false
	for _, slice := range endpointSlices {
		for _, p := range slice.Ports {
			if p.Name == nil || *p.Name != port || p.Port == nil {
				continue
			}
			for _, e := range slice.Endpoints {
				switch {
				case e.Conditions.Ready != nil && !*e.Conditions.Ready:
				case s.isSimulated(namespace, e):
					if isPod(e.TargetRef) {
						simulated = append(simulated, podAddress(namespace, e.TargetRef.Name, *p.Port))
					} else {
						invented = true
					}
				default:
					ready = append(ready, net.JoinHostPort(e.Addresses[0], strconv.Itoa(int(*p.Port))))
				}
			}
		}
	}
	if len(ready) == 0 {
		ready = simulated
	}
	switch {
	case len(ready) > 0:
	case invented:
		return "", errors.NewServiceUnavailable(fmt.Sprintf("nothing listens at the addresses of service %q: this control plane runs no containers; "+
			"docs/webhooks.md#services tells how a process or a test serves a Service", name))
	default:
		return "", errors.NewServiceUnavailable(fmt.Sprintf("no endpoints available for service %q", name))
	}
	return ready[rand.IntN(len(ready))], nil
}

// isSimulated reports whether an endpoint belongs to a pod on a simulated node, or to a pod or a node that no longer exists,
// or has the address of a simulated node or pod.
func (s Services) isSimulated(namespace string, endpoint discoveryv1.Endpoint) bool {
	target := endpoint.TargetRef
	if s.Simulated == nil {
		return false
	}
	if !isPod(target) {
		return s.isInvented(endpoint.Addresses[0])
	}
	pod, err := s.get("pods", namespace, target.Name)
	if err != nil {
		return errors.IsNotFound(err)
	}
	node, err := s.get("nodes", "", pod.(*corev1.Pod).Spec.NodeName)
	return errors.IsNotFound(err) || err == nil && s.Simulated(node.(*corev1.Node))
}

// isPod reports whether an endpoint belongs to a pod.
func isPod(target *corev1.ObjectReference) bool { return target != nil && target.Kind == "Pod" }

// isInvented reports whether an address is one that simulated nodes or their pods have. Nothing on the network of this machine
// has such an address, except by chance.
func (s Services) isInvented(address string) bool {
	ip, err := netip.ParseAddr(address)
	if err != nil {
		return false
	}
	if s.SimulatedAddress != nil && s.SimulatedAddress(ip) {
		return true
	}
	gvr := corev1.SchemeGroupVersion.WithResource("nodes")
	storage, ok := s.Storage(gvr).(rest.Lister)
	if !ok {
		return false
	}
	list, err := storage.List(scope(gvr, ""), &internalversion.ListOptions{})
	if err != nil {
		return false
	}
	return slices.ContainsFunc(list.(*corev1.NodeList).Items, func(node corev1.Node) bool {
		return s.Simulated(&node) && slices.ContainsFunc(node.Status.Addresses, func(a corev1.NodeAddress) bool { return a.Address == address })
	})
}

// get returns an object of the core group.
func (s Services) get(resource, namespace, name string) (runtime.Object, error) {
	gvr := corev1.SchemeGroupVersion.WithResource(resource)
	storage, ok := s.Storage(gvr).(rest.Getter)
	if !ok {
		return nil, errors.NewMethodNotSupported(gvr.GroupResource(), "get")
	}
	return storage.Get(scope(gvr, namespace), name, &metav1.GetOptions{})
}

// EndpointSlices returns the EndpointSlices of a service. The caller must not change them.
func (s Services) EndpointSlices(namespace, name string) ([]discoveryv1.EndpointSlice, error) {
	gvr := discoveryv1.SchemeGroupVersion.WithResource("endpointslices")
	storage, ok := s.Storage(gvr).(rest.Lister)
	if !ok {
		return nil, errors.NewNotFound(gvr.GroupResource(), name)
	}
	of := labels.SelectorFromSet(labels.Set{discoveryv1.LabelServiceName: name})
	list, err := storage.List(scope(gvr, namespace), &internalversion.ListOptions{LabelSelector: of})
	if err != nil {
		return nil, err
	}
	return list.(*discoveryv1.EndpointSliceList).Items, nil
}

// OnLoopback reports whether a service has the annotation [LoopbackPort].
func (s Services) OnLoopback(service *corev1.Service) bool {
	_, ok := service.Annotations[LoopbackPort]
	return ok
}

// Get returns a service, or a NotFound error. The caller must not change the service.
func (s Services) Get(namespace, name string) (*corev1.Service, error) {
	gvr := corev1.SchemeGroupVersion.WithResource("services")
	storage, ok := s.Storage(gvr).(rest.Getter)
	if !ok {
		return nil, errNotFound(name)
	}
	obj, err := storage.Get(scope(gvr, namespace), name, &metav1.GetOptions{})
	switch {
	case errors.IsNotFound(err):
		return nil, errNotFound(name)
	case err != nil:
		return nil, err
	}
	return obj.(*corev1.Service), nil
}

// errNotFound returns an error with the same text as client-go's lister, which kube-apiserver uses.
func errNotFound(name string) error {
	return errors.NewNotFound(corev1.Resource("service"), name)
}

// scope returns the context for reading objects of a namespace.
func scope(gvr schema.GroupVersionResource, namespace string) context.Context {
	info := &request.RequestInfo{IsResourceRequest: true, Verb: "get", APIGroup: gvr.Group, APIVersion: gvr.Version, Resource: gvr.Resource}
	return request.WithNamespace(request.WithRequestInfo(context.Background(), info), namespace)
}
