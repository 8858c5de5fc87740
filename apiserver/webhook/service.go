package webhook

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/url"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
)

// LoopbackPort is the annotation of a Service that a process on the control plane's machine serves. The value is the
// port on 127.0.0.1 for all ports of the Service. Endpoints cannot express this, because loopback addresses are invalid
// there.
const LoopbackPort = "flyball.dev/loopback-port"

// Services resolves services to the addresses of their endpoints. It reads the objects with each call, so a change
// takes effect at once.
type Services struct {
	// Storage returns the storage of a resource, or nil if the resource is not served.
	Storage func(schema.GroupVersionResource) rest.Storage
	// Simulated, if not nil, reports whether a pod is simulated, so that no process listens at its address.
	Simulated func(*corev1.Pod) bool
}

// ResolveEndpoint returns the URL of a service at one of its ports. The scheme is https, and the address depends on the
// service:
//
//   - With the annotation [LoopbackPort], it is that port on 127.0.0.1.
//   - For the type ExternalName, it is the external name with the given port.
//   - For any other service, it is a ready endpoint of its EndpointSlices, except the endpoints of simulated pods.
//     There is no network with cluster IPs, so ResolveEndpoint selects an endpoint like kube-proxy.
//
// ResolveEndpoint returns an error if the service does not exist, has no such port, has no endpoint except simulated
// pods, or has an invalid annotation.
//
//upstream:k8s.io/apiserver/pkg/util/proxy.ResolveEndpoint
func (s Services) ResolveEndpoint(namespace, name string, port int32) (*url.URL, error) {
	service, err := s.Get(namespace, name)
	if err != nil {
		return nil, err
	}
	if value, ok := service.Annotations[LoopbackPort]; ok {
		n, err := strconv.ParseUint(value, 10, 16)
		if err != nil || n == 0 {
			return nil, fmt.Errorf("annotation %s of service %q: %q is not a port", LoopbackPort, name, value)
		}
		return &url.URL{Scheme: "https", Host: net.JoinHostPort("127.0.0.1", value)}, nil
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

// endpoint returns the address of a random ready endpoint of a service.
//
//upstream:k8s.io/apiserver/pkg/util/proxy.RandomEndpoint
func (s Services) endpoint(namespace, name, port string) (string, error) {
	endpointSlices, err := s.EndpointSlices(namespace, name)
	if err != nil {
		return "", err
	}
	var ready []string
	simulated := false
	for _, slice := range endpointSlices {
		for _, p := range slice.Ports {
			if p.Name == nil || *p.Name != port || p.Port == nil {
				continue
			}
			for _, e := range slice.Endpoints {
				switch {
				case e.Conditions.Ready != nil && !*e.Conditions.Ready:
				case s.isSimulated(namespace, e.TargetRef):
					simulated = true
				default:
					ready = append(ready, net.JoinHostPort(e.Addresses[0], strconv.Itoa(int(*p.Port))))
				}
			}
		}
	}
	switch {
	case len(ready) > 0:
	case simulated:
		return "", errors.NewServiceUnavailable(fmt.Sprintf("the pods of service %q listen on no port: this control plane runs "+
			"no containers; a process on this machine can serve it, by the annotation %s of the service or by its type ExternalName, "+
			"as docs/webhooks.md#services explains", name, LoopbackPort))
	default:
		return "", errors.NewServiceUnavailable(fmt.Sprintf("no endpoints available for service %q", name))
	}
	return ready[rand.IntN(len(ready))], nil
}

// isSimulated reports whether an endpoint belongs to a simulated pod, or to a pod that no longer exists.
func (s Services) isSimulated(namespace string, target *corev1.ObjectReference) bool {
	if s.Simulated == nil || target == nil || target.Kind != "Pod" {
		return false
	}
	gvr := corev1.SchemeGroupVersion.WithResource("pods")
	storage, ok := s.Storage(gvr).(rest.Getter)
	if !ok {
		return false
	}
	pod, err := storage.Get(scope(gvr, namespace), target.Name, &metav1.GetOptions{})
	return errors.IsNotFound(err) || err == nil && s.Simulated(pod.(*corev1.Pod))
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
