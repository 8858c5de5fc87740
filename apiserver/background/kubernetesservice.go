//lint:file-ignore SA1019 Clients may still read the deprecated Endpoints of the Service.

package background

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/klog/v2"

	"flyball.dev/apiserver/kinds"
	"flyball.dev/apiserver/kinds/core"
	"flyball.dev/apiserver/kinds/networking"
	"flyball.dev/apiserver/store"
)

const (
	serviceName = "kubernetes"
	// reconcileDelay is the time between a change of a watched object and its reconciliation. It equals
	// kube-apiserver's period; kube-apiserver polls instead of watching.
	reconcileDelay = 10 * time.Second
)

// unreachable is the advertised address of a server that does not listen, or that listens only on loopback; a loopback
// address is not valid in endpoints. The address is reserved for documentation (RFC 5737), so nothing answers there.
var unreachable = netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, 2, 1}), 6443)

// advertised returns the endpoint address for a listen address.
//
//upstream:k8s.io/apiserver/pkg/server/options.SecureServingOptions.DefaultExternalAddress
func advertised(listen netip.AddrPort) netip.AddrPort {
	ip := listen.Addr().Unmap()
	switch {
	case !ip.IsValid():
		return unreachable
	case ip.IsUnspecified(): // Go reports [::] for 0.0.0.0, too
		host, err := utilnet.ResolveBindAddress(nil)
		if err != nil {
			break
		}
		ip, _ = netip.AddrFromSlice(host)
		ip = ip.Unmap()
	}
	if !ip.IsGlobalUnicast() {
		ip = unreachable.Addr()
	}
	return netip.AddrPortFrom(ip, listen.Port())
}

// kubernetesService reconciles the Service through which programs in a cluster find the API server.
type kubernetesService struct {
	objects *objects
	loops   *loops
	network netip.Prefix // of the services
	address netip.AddrPort
	// leases are the addresses of all servers, or nil if there is one server.
	leases *masterLeases
	// addresses are the addresses of the endpoints.
	addresses []netip.Addr
}

func (c *Controllers) newKubernetesService(address netip.AddrPort) *kubernetesService {
	k := &kubernetesService{objects: c.objects, loops: c.loops, network: c.config.ServiceNetwork, address: address, addresses: []netip.Addr{address.Addr()}}
	if c.config.Shared {
		k.leases = &masterLeases{storage: c.config.Storage, address: address.Addr()}
		if address.Addr() == unreachable.Addr() {
			k.address = unreachable // so that servers with different ports on loopback agree
		}
	}
	return k
}

// run reconciles after each change, and again after an error, until the server stops. With leases, run reconciles
// periodically.
//
//upstream:pkg/controlplane/controller/kubernetesservice.Controller.Run
func (k *kubernetesService) run(changed <-chan struct{}) {
	if k.leases != nil {
		defer k.leases.remove()
	}
	for failed := false; ; {
		if !failed && k.leases == nil {
			select {
			case <-k.loops.stopping.Done():
				return
			case <-changed:
			}
		}
		select {
		case <-k.loops.stopping.Done():
			return
		case <-time.After(reconcileDelay):
		}
		k.loops.exclusive(func() {
			err := errors.Join(k.objects.createSystemNamespaces(), k.reconcile())
			if failed = err != nil; failed && k.loops.stopping.Err() == nil {
				klog.ErrorS(err, "Cannot reconcile the Service kubernetes and the system namespaces")
			}
		})
	}
}

// keys returns the storage keys of the reconciled objects.
func (k *kubernetesService) keys() []string {
	keys := []string{
		store.Key(corev1.Resource("services"), metav1.NamespaceDefault, serviceName),
		store.Key(corev1.Resource("endpoints"), metav1.NamespaceDefault, serviceName),
		store.Key(discoveryv1.Resource("endpointslices"), metav1.NamespaceDefault, serviceName),
		store.Key(serviceCIDRs.GroupResource(), "", networking.DefaultServiceCIDR(k.network).Name),
	}
	for _, name := range systemNamespaces {
		keys = append(keys, store.Key(corev1.Resource("namespaces"), "", name))
	}
	return keys
}

// reconcile creates missing objects and corrects the endpoints. It does not correct an existing Service.
//
//upstream:pkg/controlplane/controller/kubernetesservice.Controller.UpdateKubernetesService
func (k *kubernetesService) reconcile() error {
	all := k.reconcileServiceCIDR()
	if k.leases != nil {
		addresses, err := k.leases.renew(k.loops.stopping)
		if err != nil {
			return errors.Join(all, fmt.Errorf("leases of the API servers: %w", err))
		}
		k.addresses = addresses
	}
	endpoints, slice := k.endpoints(), k.slice()
	for _, object := range []struct {
		resource schema.GroupVersionResource
		wanted   kinds.Object
		correct  func(is runtime.Object) bool // reports whether it has changed something
	}{
		{corev1.SchemeGroupVersion.WithResource("services"), k.service(), func(runtime.Object) bool { return false }},
		{corev1.SchemeGroupVersion.WithResource("endpoints"), endpoints, func(is runtime.Object) bool {
			e := is.(*corev1.Endpoints)
			if e.Labels[discoveryv1.LabelSkipMirror] == "true" && apiequality.Semantic.DeepEqual(e.Subsets, endpoints.Subsets) {
				return false
			}
			metav1.SetMetaDataLabel(&e.ObjectMeta, discoveryv1.LabelSkipMirror, "true")
			e.Subsets = endpoints.Subsets
			return true
		}},
		{discoveryv1.SchemeGroupVersion.WithResource("endpointslices"), slice, func(is runtime.Object) bool {
			e := is.(*discoveryv1.EndpointSlice)
			if e.Labels[discoveryv1.LabelServiceName] == serviceName &&
				apiequality.Semantic.DeepEqual(e.Endpoints, slice.Endpoints) &&
				apiequality.Semantic.DeepEqual(e.Ports, slice.Ports) {
				return false
			}
			metav1.SetMetaDataLabel(&e.ObjectMeta, discoveryv1.LabelServiceName, serviceName)
			e.Endpoints, e.Ports = slice.Endpoints, slice.Ports
			return true
		}},
	} {
		if err := k.ensure(object.resource, object.wanted, object.correct); err != nil {
			all = errors.Join(all, fmt.Errorf("%s: %w", object.resource.Resource, err))
		}
	}
	return all
}

// ensure creates an object, or corrects the existing one.
//
//upstream:pkg/controlplane/reconcilers.leaseEndpointReconciler.doReconcile
//upstream:pkg/controlplane/reconcilers.EndpointsAdapter.EnsureEndpointSliceFromEndpoints
func (k *kubernetesService) ensure(gvr schema.GroupVersionResource, wanted kinds.Object,
	correct func(runtime.Object) bool) error {
	storage, ok := k.objects.registry(gvr).(rest.Getter)
	if !ok {
		return fmt.Errorf("%s is not served", gvr)
	}
	is, err := storage.Get(request.WithNamespace(k.loops.stopping, metav1.NamespaceDefault), serviceName,
		&metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		_, err := k.objects.seed(gvr, wanted)
		return err
	case err != nil:
		return err
	}
	if now, ok := is.(*discoveryv1.EndpointSlice); ok &&
		now.AddressType != wanted.(*discoveryv1.EndpointSlice).AddressType {
		// The address type of a slice is immutable.
		if err := k.objects.remove(gvr, metav1.NamespaceDefault, serviceName, nil); err != nil {
			return err
		}
		_, err := k.objects.seed(gvr, wanted)
		return err
	}
	if !correct(is) {
		return nil
	}
	return k.objects.replace(gvr, metav1.NamespaceDefault, serviceName, func(obj runtime.Object) { correct(obj) })
}

func (k *kubernetesService) meta(labels map[string]string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: serviceName, Labels: labels}
}

const portName = "https"

func (k *kubernetesService) service() *corev1.Service {
	return &corev1.Service{
		ObjectMeta: k.meta(map[string]string{"component": "apiserver", "provider": "kubernetes"}),
		Spec: corev1.ServiceSpec{
			ClusterIP:      core.APIServerIP(k.network).String(),
			IPFamilyPolicy: new(corev1.IPFamilyPolicySingleStack),
			Ports: []corev1.ServicePort{{Name: portName, Protocol: corev1.ProtocolTCP, Port: 443,
				TargetPort: intstr.FromInt32(int32(k.address.Port()))}},
		},
	}
}

func (k *kubernetesService) endpoints() *corev1.Endpoints {
	var addresses []corev1.EndpointAddress
	for _, a := range k.addresses {
		addresses = append(addresses, corev1.EndpointAddress{IP: a.String()})
	}
	return &corev1.Endpoints{
		ObjectMeta: k.meta(map[string]string{discoveryv1.LabelSkipMirror: "true"}),
		Subsets: []corev1.EndpointSubset{{
			Addresses: addresses,
			Ports:     []corev1.EndpointPort{{Name: portName, Protocol: corev1.ProtocolTCP, Port: int32(k.address.Port())}},
		}},
	}
}

// slice returns the EndpointSlice.
//
//upstream:pkg/controlplane/reconcilers.endpointSliceFromEndpoints
func (k *kubernetesService) slice() *discoveryv1.EndpointSlice {
	var endpoints []discoveryv1.Endpoint
	for _, a := range k.addresses {
		endpoints = append(endpoints, discoveryv1.Endpoint{Addresses: []string{a.String()},
			Conditions: discoveryv1.EndpointConditions{Ready: new(true)}})
	}
	family := discoveryv1.AddressTypeIPv4
	if k.address.Addr().Is6() {
		family = discoveryv1.AddressTypeIPv6
	}
	return &discoveryv1.EndpointSlice{
		ObjectMeta:  k.meta(map[string]string{discoveryv1.LabelServiceName: serviceName}),
		AddressType: family,
		Endpoints:   endpoints,
		Ports: []discoveryv1.EndpointPort{{Name: new(portName), Protocol: new(corev1.ProtocolTCP),
			Port: new(int32(k.address.Port()))}},
	}
}
