package core

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apilabels "k8s.io/apimachinery/pkg/labels"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/klog/v2"

	"flyball.dev/apiserver/kinds"
)

// addressManager is the value of the label managed-by of the IPAddresses that the allocator creates.
//
//upstream:pkg/registry/core/service/ipallocator.ControllerName
const addressManager = "ipallocator.k8s.io"

// Addresses has the ServiceCIDRs, which contain the addresses for services, and the IPAddresses. An
// IPAddress reserves one address. The kinds IPAddress and ServiceCIDR set the fields, and Services uses
// them.
type Addresses struct {
	// Network is the range of the addresses that services get first.
	Network netip.Prefix
	// Claims is nil unless other servers may use the storage at the same time.
	Claims Claims

	IPs      kinds.Stored[*networkingv1.IPAddress]
	CIDRs    kinds.Stored[*networkingv1.ServiceCIDR]
	services *serviceAllocator
}

// clusterScope returns the context of the server's own writes of cluster-scoped objects.
func clusterScope() context.Context {
	return request.WithNamespace(context.Background(), metav1.NamespaceNone)
}

// create reserves an address for a service. It returns false if the address is reserved already.
//
//upstream:pkg/registry/core/service/ipallocator.Allocator.createIPAddress
//upstream:pkg/registry/core/service/ipallocator.serviceToRef
func (a *Addresses) create(ip netip.Addr, namespace, name string) (bool, error) {
	err := a.IPs.Create(clusterScope(), &networkingv1.IPAddress{
		ObjectMeta: metav1.ObjectMeta{Name: ip.String(), Labels: addressLabels(ip)},
		Spec: networkingv1.IPAddressSpec{
			ParentRef: &networkingv1.ParentReference{Resource: "services", Namespace: namespace, Name: name},
		},
	})
	if errors.IsAlreadyExists(err) {
		return false, nil
	}
	return err == nil, err
}

// addressLabels returns the labels of the IPAddress of a service.
//
//upstream:pkg/registry/core/service/ipallocator.Allocator.createIPAddress
func addressLabels(ip netip.Addr) map[string]string {
	return map[string]string{
		networkingv1.LabelIPAddressFamily: string(familyOf(ip.String())),
		networkingv1.LabelManagedBy:       addressManager,
	}
}

// delete deletes the IPAddresses that a service no longer has.
//
//upstream:pkg/registry/core/service/ipallocator.Allocator.release
func (a *Addresses) delete(ips []netip.Addr) {
	for _, ip := range ips {
		err := a.IPs.Delete(clusterScope(), ip.String(), &metav1.DeleteOptions{})
		if err != nil && !errors.IsNotFound(err) {
			klog.ErrorS(err, "The address of a service could not be released", "address", ip)
		}
	}
}

// leakedAfter is the age of an IPAddress at which a service that is not stored yet will never be, as in kube-apiserver.
const leakedAfter = time.Minute

// reconcile creates the missing IPAddresses of services. It deletes the IPAddresses of services that were
// never written. Another server may be about to write the service of a new IPAddress.
//
//upstream:pkg/registry/core/service/ipallocator/controller.RepairIPAddress
func (a *Addresses) reconcile(ctx context.Context, services map[netip.Addr]metav1.ObjectMeta) error {
	var leaked []netip.Addr
	reserved := map[netip.Addr]bool{}
	err := a.IPs.List(ctx, func(o *networkingv1.IPAddress) {
		ip, err := netip.ParseAddr(o.Name)
		if err != nil {
			return
		}
		reserved[ip] = true
		writing := a.Claims != nil && time.Since(o.CreationTimestamp.Time) < leakedAfter
		if _, ok := services[ip]; !ok && !writing && o.Labels[networkingv1.LabelManagedBy] == addressManager {
			leaked = append(leaked, ip)
		}
	})
	if err != nil {
		return err
	}
	a.delete(leaked)
	for ip, s := range services {
		if !reserved[ip] {
			if _, err := a.create(ip, s.Namespace, s.Name); err != nil {
				return err
			}
		}
	}
	return nil
}

// ranges returns the networks of the ready ServiceCIDRs, in the order of the names of the ServiceCIDRs.
//
//upstream:pkg/registry/core/service/ipallocator.MetaAllocator.syncAllocators
//upstream:pkg/registry/core/service/ipallocator.isReady
func (a *Addresses) ranges(ctx context.Context) ([]netip.Prefix, error) {
	var usable []*networkingv1.ServiceCIDR
	err := a.CIDRs.List(ctx, func(c *networkingv1.ServiceCIDR) {
		if c.DeletionTimestamp == nil && !meta.IsStatusConditionFalse(c.Status.Conditions, networkingv1.ServiceCIDRConditionReady) {
			usable = append(usable, c)
		}
	})
	slices.SortFunc(usable, func(a, b *networkingv1.ServiceCIDR) int { return strings.Compare(a.Name, b.Name) })
	var networks []netip.Prefix
	for _, c := range usable {
		for _, cidr := range c.Spec.CIDRs {
			if network, err := netip.ParsePrefix(cidr); err == nil && network.Addr().Is4() {
				networks = append(networks, network)
			}
		}
	}
	return networks, err
}

// Allocate implements [kinds.ResourceAllocator]. An IPAddress needs no allocation.
func (a *Addresses) Allocate(context.Context, *networkingv1.IPAddress, *networkingv1.IPAddress, bool) (func(), error) {
	return func() {}, nil
}

// Commit restores the labels of an IPAddress that reserves the address of a service.
//
//upstream:pkg/registry/core/service/ipallocator/controller.RepairIPAddress.syncIPAddress
//upstream:pkg/registry/core/service/ipallocator/controller.verifyIPAddressLabels
func (a *Addresses) Commit(o *networkingv1.IPAddress) {
	a.services.whileInUse(o.Name, func(ip netip.Addr) { a.label(o, addressLabels(ip)) })
}

// label sets labels of an IPAddress that does not have them.
func (a *Addresses) label(o *networkingv1.IPAddress, labels map[string]string) {
	if apilabels.SelectorFromSet(labels).Matches(apilabels.Set(o.Labels)) {
		return
	}
	_, err := a.IPs.Update(clusterScope(), o.Name, nil, func(o *networkingv1.IPAddress) error {
		for key, value := range labels {
			metav1.SetMetaDataLabel(&o.ObjectMeta, key, value)
		}
		return nil
	})
	if err != nil && !errors.IsNotFound(err) {
		klog.ErrorS(err, "The labels of an address could not be restored", "address", o.Name)
	}
}

// Release recreates a deleted IPAddress that reserves the address of a service.
//
//upstream:pkg/registry/core/service/ipallocator/controller.RepairIPAddress.recreateIPAddress
func (a *Addresses) Release(o *networkingv1.IPAddress) {
	a.services.whileInUse(o.Name, func(ip netip.Addr) {
		if _, err := a.create(ip, o.Spec.ParentRef.Namespace, o.Spec.ParentRef.Name); err != nil {
			klog.ErrorS(err, "The address of a service could not be reserved again", "address", ip)
		}
	})
}

// Reset implements [kinds.ResourceAllocator]. The storage has all state of IPAddresses.
func (a *Addresses) Reset() {}

// usable returns the first and the last address of a network that a service can have.
//
//upstream:pkg/registry/core/service/ipallocator.NewIPAllocator
//upstream:pkg/registry/core/service/ipallocator.broadcastAddress
func usable(network netip.Prefix) (first, last netip.Addr) {
	base := network.Masked().Addr().As4()
	n := toNumber(base) | (1<<(32-network.Bits()) - 1)
	return network.Masked().Addr().Next(), fromNumber(n).Prev()
}

// contains reports whether a service can have an address of a network.
//
//upstream:pkg/registry/core/service/ipallocator.Allocator.allocateService
func contains(network netip.Prefix, ip netip.Addr) bool {
	first, last := usable(network)
	return first.Compare(ip) <= 0 && ip.Compare(last) <= 0
}

func toNumber(b [4]byte) uint32 {
	return uint32(b[0])<<24 | uint32(b[1])<<16 | uint32(b[2])<<8 | uint32(b[3])
}

func fromNumber(n uint32) netip.Addr {
	return netip.AddrFrom4([4]byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)})
}

var _ kinds.ResourceAllocator[*networkingv1.IPAddress] = (*Addresses)(nil)
var _ kinds.ResourceAllocator[*corev1.Service] = (*serviceAllocator)(nil)
