package core

import (
	"context"
	"net/netip"
	"slices"
	"strconv"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/apiserver/kinds"
	"flyball.dev/apiserver/kinds/allocator"
	"flyball.dev/apiserver/resource"
)

// DefaultServiceNetwork is the default range of cluster IPs.
var DefaultServiceNetwork = netip.MustParsePrefix("10.96.0.0/12")

// APIServerIP returns the address of the API server: the first usable address of the range of cluster
// IPs.
//
//upstream:pkg/controlplane/apiserver/options.ServiceIPRange
func APIServerIP(network netip.Prefix) netip.Addr { return network.Masked().Addr().Next() }

// wantsHealthPort reports whether a service has a health check node port.
//
//upstream:pkg/registry/core/service.needsHCNodePort
//upstream:pkg/api/service.NeedsHealthCheck
func wantsHealthPort(s *corev1.Service) bool {
	return s.Spec.Type == corev1.ServiceTypeLoadBalancer &&
		s.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal
}

// serviceAllocator allocates cluster IPs and node ports. At its first use it reads the allocations from
// the stored services. An IPAddress reserves each cluster IP.
//
//upstream:pkg/registry/core/service/storage.Allocators
type serviceAllocator struct {
	services  kinds.Stored[*corev1.Service]
	addresses *Addresses

	mu     sync.Mutex
	loaded bool
	ips    *allocator.Allocator[netip.Addr]
	ports  *allocator.Allocator[nodePort]
}

// nodePort is a node port of one protocol.
type nodePort struct {
	protocol corev1.Protocol
	number   int32
}

// Allocate sets the addresses and the node ports that the type of a service needs. An update keeps the
// old ones that the type still needs. A dry run gets the addresses and ports that it requests, allocated
// or not.
//
//upstream:pkg/registry/core/service/storage.REST.beginCreate
//upstream:pkg/registry/core/service/storage.REST.beginUpdate
//upstream:pkg/registry/core/service/storage.Allocators.allocateCreate
//upstream:pkg/registry/core/service/storage.Allocators.allocateUpdate
func (c *serviceAllocator) Allocate(ctx context.Context, s, old *corev1.Service, dryRun bool) (func(), error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.load(ctx); err != nil {
		return nil, err
	}
	carryOverAddresses(s, old)
	carryOverPorts(s, old)
	a := &serviceAllocation{serviceAllocator: c, ctx: ctx, dryRun: dryRun, start: spread(s.Namespace + "/" + s.Name)}
	a.Owner = s.UID
	if old != nil {
		a.Owner, a.Revision = old.UID, revision(old)
	}
	if hasClusterIP(s.Spec.Type) {
		if a.errs = clusterAddresses(&s.Spec); len(a.errs) == 0 {
			a.families(s)
		}
		if len(a.errs) == 0 {
			a.address(s)
		}
	}
	if len(a.errs) == 0 {
		a.nodePorts(s, old)
	}
	if len(a.errs) > 0 {
		a.undo()
		return nil, apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Service").GroupKind(), s.Name, resource.Bounded(a.errs))
	}
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		a.undo()
	}, nil
}

// Commit releases the addresses and ports that the service no longer has.
//
//upstream:pkg/registry/core/service/storage.Allocators.txnUpdateClusterIPs
//upstream:pkg/registry/core/service/storage.Allocators.txnUpdateNodePorts
func (c *serviceAllocator) Commit(s *corev1.Service) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.addresses.delete(c.ips.Commit(s.UID, revision(s), addressesOf(s)))
	c.ports.Commit(s.UID, revision(s), portsOf(s))
}

// Release releases all addresses and ports of a deleted service.
//
//upstream:pkg/registry/core/service/storage.REST.afterDelete
//upstream:pkg/registry/core/service/storage.Allocators.releaseAllocatedResources
func (c *serviceAllocator) Release(s *corev1.Service) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.loaded {
		c.addresses.delete(c.ips.Release(s.UID))
		c.ports.Release(s.UID)
	}
}

// Reset makes the next write read the allocations from the stored services again.
func (c *serviceAllocator) Reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.loaded = false
}

// revision returns the resource version of a stored object as a number.
func revision(obj metav1.Object) uint64 {
	n, _ := strconv.ParseUint(obj.GetResourceVersion(), 10, 64)
	return n
}

// addressesOf returns the cluster IPs of a service.
func addressesOf(s *corev1.Service) []netip.Addr {
	var ips []netip.Addr
	for _, ip := range s.Spec.ClusterIPs {
		if a, err := netip.ParseAddr(ip); err == nil {
			ips = append(ips, a)
		}
	}
	return ips
}

// portsOf returns the node ports of a service, with the health check node port.
//
//upstream:pkg/registry/core/service/storage.collectServiceNodePorts
func portsOf(s *corev1.Service) []nodePort {
	var ports []nodePort
	for _, p := range s.Spec.Ports {
		if p.NodePort != 0 {
			ports = append(ports, nodePort{p.Protocol, p.NodePort})
		}
	}
	if n := s.Spec.HealthCheckNodePort; n != 0 {
		ports = append(ports, nodePort{corev1.ProtocolTCP, n})
	}
	return ports
}

// load reads the allocations from the stored services, unless they are loaded.
func (c *serviceAllocator) load(ctx context.Context) error {
	if c.loaded {
		return nil
	}
	c.ips, c.ports = allocator.New[netip.Addr](), allocator.New[nodePort]()
	services := map[netip.Addr]metav1.ObjectMeta{}
	err := c.services.List(ctx, func(s *corev1.Service) {
		w := &allocator.Write{Owner: s.UID, Revision: revision(s)}
		for _, a := range addressesOf(s) {
			if c.ips.Allocate(a, w) {
				services[a] = s.ObjectMeta
			}
		}
		for _, p := range portsOf(s) {
			c.ports.Allocate(p, w)
		}
	})
	if err == nil {
		err = c.addresses.reconcile(ctx, services)
	}
	c.loaded = err == nil
	return err
}

// whileInUse calls do if a service has the address. No service is written during the call.
func (c *serviceAllocator) whileInUse(address string, do func(ip netip.Addr)) {
	ip, err := netip.ParseAddr(address)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil || !c.loaded {
		return
	}
	if _, taken := c.ips.Owner(ip); taken {
		do(ip)
	}
}

// carryOverAddresses makes clusterIP and clusterIPs agree. Fields that an update leaves empty keep the old
// values, and a type without a cluster IP drops them.
//
//upstream:pkg/registry/core/service/storage.normalizeClusterIPs
//upstream:pkg/registry/core/service/storage.patchAllocatedValues
//upstream:pkg/registry/core/service.dropTypeDependentFields
func carryOverAddresses(s, old *corev1.Service) {
	spec := &s.Spec
	if !hasClusterIP(spec.Type) {
		if old != nil && hasClusterIP(old.Spec.Type) && spec.ClusterIP == old.Spec.ClusterIP {
			spec.ClusterIP, spec.ClusterIPs = "", nil
		}
		if spec.ClusterIP != "" && len(spec.ClusterIPs) == 0 {
			spec.ClusterIPs = []string{spec.ClusterIP}
		}
		if spec.Type == corev1.ServiceTypeExternalName && old != nil && hasClusterIP(old.Spec.Type) {
			spec.IPFamilies, spec.IPFamilyPolicy = nil, nil
		}
		return
	}
	if old != nil && hasClusterIP(old.Spec.Type) {
		was := &old.Spec
		if spec.ClusterIP != was.ClusterIP && slices.Equal(spec.ClusterIPs, was.ClusterIPs) {
			spec.ClusterIPs = nil
		}
		if spec.ClusterIP == "" {
			spec.ClusterIP = was.ClusterIP
		}
		if len(spec.ClusterIPs) == 0 && spec.ClusterIP == was.ClusterIP {
			spec.ClusterIPs = slices.Clone(was.ClusterIPs)
		}
		if len(spec.IPFamilies) == 0 {
			spec.IPFamilies = was.IPFamilies
		}
		if spec.IPFamilyPolicy == nil {
			spec.IPFamilyPolicy = was.IPFamilyPolicy
		}
	}
	if spec.ClusterIP != "" && len(spec.ClusterIPs) == 0 {
		spec.ClusterIPs = []string{spec.ClusterIP}
	}
	if spec.IPFamilyPolicy == nil {
		defaultFamilyPolicy(spec)
	}
}

// defaultFamilyPolicy sets the family policy. A headless service without a selector may have both
// families, since its endpoints may be outside the cluster.
//
//upstream:pkg/registry/core/service/storage.Allocators.initIPFamilyFields
func defaultFamilyPolicy(spec *corev1.ServiceSpec) {
	policy := corev1.IPFamilyPolicySingleStack
	if foreignEndpoints(spec) {
		policy = corev1.IPFamilyPolicyRequireDualStack
	}
	spec.IPFamilyPolicy = &policy
}

// foreignEndpoints reports whether a service is headless and has no selector.
func foreignEndpoints(spec *corev1.ServiceSpec) bool {
	return spec.ClusterIP == corev1.ClusterIPNone && len(spec.Selector) == 0
}

// carryOverPorts keeps the node ports of existing ports, and drops them if the new type has none.
//
//upstream:pkg/registry/core/service/storage.patchAllocatedValues
//upstream:pkg/registry/core/service.dropTypeDependentFields
func carryOverPorts(s, old *corev1.Service) {
	if old == nil {
		return
	}
	for i := range s.Spec.Ports {
		p := &s.Spec.Ports[i]
		j := slices.IndexFunc(old.Spec.Ports, func(o corev1.ServicePort) bool {
			return o.Port == p.Port && o.Protocol == p.Protocol
		})
		if j < 0 {
			continue
		}
		was := old.Spec.Ports[j].NodePort
		switch {
		case hasNodePort(s.Spec.Type) && p.NodePort == 0 && hasNodePort(old.Spec.Type):
			p.NodePort = was
		case !hasNodePort(s.Spec.Type) && hasNodePort(old.Spec.Type) && p.NodePort == was:
			p.NodePort = 0
		}
	}
	if !wantsHealthPort(s) && wantsHealthPort(old) && s.Spec.HealthCheckNodePort == old.Spec.HealthCheckNodePort {
		s.Spec.HealthCheckNodePort = 0
	}
}
