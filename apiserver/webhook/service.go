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

// LoopbackPort is the annotation of a Service that is served by a process on the machine of the
// control plane. Its value is the port on loopback, for all ports of the Service. Endpoints cannot
// say so, since loopback addresses are not valid there.
const LoopbackPort = "flyball.dev/loopback-port"

// Services resolves services to the addresses of their endpoints. It reads them when it is called,
// so a change takes effect at once.
type Services struct {
	// Storage returns the storage of a resource, or nil if the resource is not served.
	Storage func(schema.GroupVersionResource) rest.Storage
	// Simulated, if not nil, reports whether nothing runs in a pod, so that its address leads nowhere.
	Simulated func(*corev1.Pod) bool
}

// ResolveEndpoint returns the address of a service at one of its ports:
//
//   - with the annotation [LoopbackPort], that port on 127.0.0.1;
//   - of type ExternalName, that name, at any port;
//   - or else a ready endpoint of its EndpointSlices that is not of a simulated pod. There is no network
//     with cluster IPs here, so this does what kube-proxy would do.
//
// The URL has the scheme https. Possible errors: the service does not exist, has no such port or no
// endpoint but those of simulated pods, or its annotation is invalid.
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

// endpoint returns the address of a random endpoint of a service that is ready.
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

// isSimulated reports whether an endpoint belongs to a pod that is gone, or in which nothing runs.
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

// EndpointSlices returns the endpoints of a service, which must not be changed.
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

// Get returns a service, which must not be changed. If there is none, the error is NotFound.
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

// errNotFound has the text of the error of client-go's lister, which kube-apiserver uses.
func errNotFound(name string) error {
	return errors.NewNotFound(corev1.Resource("service"), name)
}

// scope returns the context of a read in a namespace.
func scope(gvr schema.GroupVersionResource, namespace string) context.Context {
	info := &request.RequestInfo{IsResourceRequest: true, Verb: "get", APIGroup: gvr.Group, APIVersion: gvr.Version, Resource: gvr.Resource}
	return request.WithNamespace(request.WithRequestInfo(context.Background(), info), namespace)
}
