package core

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"flyball.dev/apiserver/kinds"
	"flyball.dev/apiserver/kinds/allocator"
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

// Claims keeps servers that share a storage from allocating the same thing at the same time. A claim lasts as long as a
// request can take. Afterwards, the stored object itself shows the allocation.
type Claims interface {
	// Claim claims a name for an owner, or returns false if another owner has claimed it.
	Claim(ctx context.Context, name, owner string) (bool, error)
	// Unclaim ends a claim early.
	Unclaim(ctx context.Context, name, owner string)
}

// serviceAllocator allocates cluster IPs and node ports. At its first use it reads the allocations from
// the stored services; with other servers, it does so at each use. An IPAddress reserves each cluster IP.
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

// claim returns the name of a claim on the port.
func (p nodePort) claim() string { return fmt.Sprintf("nodeports/%s/%d", p.protocol, p.number) }

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
	c.loaded = c.loaded && c.addresses.Claims == nil
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
	if err := a.all(s, old); err != nil {
		a.undo()
		return nil, err
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
		c.unclaim(s.UID, c.ports.Release(s.UID))
	}
}

// claim claims a node port for a service, if there are other servers.
func (c *serviceAllocator) claim(ctx context.Context, p nodePort, owner types.UID) (bool, error) {
	if c.addresses.Claims == nil {
		return true, nil
	}
	return c.addresses.Claims.Claim(ctx, p.claim(), string(owner))
}

// unclaim ends the claims on node ports.
func (c *serviceAllocator) unclaim(owner types.UID, ports []nodePort) {
	if c.addresses.Claims == nil {
		return
	}
	for _, p := range ports {
		c.addresses.Claims.Unclaim(clusterScope(), p.claim(), string(owner))
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

// carryOverAddresses makes clusterIP and clusterIPs agree. An update that leaves them empty keeps the old ones.
//
//upstream:pkg/registry/core/service/storage.normalizeClusterIPs
//upstream:pkg/registry/core/service/storage.patchAllocatedValues
func carryOverAddresses(s, old *corev1.Service) {
	now := &s.Spec
	if old == nil {
		if now.ClusterIP != "" && len(now.ClusterIPs) == 0 {
			now.ClusterIPs = []string{now.ClusterIP}
		}
		return
	}
	was := &old.Spec
	if now.Type != corev1.ServiceTypeExternalName && was.Type != corev1.ServiceTypeExternalName {
		if now.ClusterIP == "" {
			now.ClusterIP = was.ClusterIP
		}
		if len(now.ClusterIPs) == 0 {
			now.ClusterIPs = slices.Clone(was.ClusterIPs)
		}
	}
	switch {
	case now.ClusterIP == was.ClusterIP:
		if len(now.ClusterIPs) == 0 {
			now.ClusterIPs = slices.Clone(was.ClusterIPs)
		}
	case !slices.Equal(now.ClusterIPs, was.ClusterIPs):
	case now.ClusterIP == "":
		now.ClusterIPs = nil
	default:
		now.ClusterIPs = []string{now.ClusterIP}
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

// carryOverPorts keeps the node ports that an update leaves out, of ports with the same name, unless another port has them
// now. It keeps the health check node port too.
//
//upstream:pkg/registry/core/service/storage.patchAllocatedValues
func carryOverPorts(s, old *corev1.Service) {
	if old == nil {
		return
	}
	now, was := &s.Spec, &old.Spec
	if allocatesNodePorts(now) && allocatesNodePorts(was) {
		byName := map[string]int32{}
		for _, p := range was.Ports {
			byName[p.Name] = p.NodePort
		}
		used := map[int32]bool{}
		for _, p := range now.Ports {
			used[p.NodePort] = true
		}
		for i := range now.Ports {
			if p := &now.Ports[i]; p.NodePort == 0 && !used[byName[p.Name]] {
				p.NodePort = byName[p.Name]
			}
		}
	}
	if wantsHealthPort(s) && wantsHealthPort(old) && now.HealthCheckNodePort == 0 {
		now.HealthCheckNodePort = was.HealthCheckNodePort
	}
}

// allocatesNodePorts reports whether the ports of a service get node ports that they do not request.
//
//upstream:pkg/registry/core/service/storage.needsNodePort
//upstream:pkg/registry/core/service/storage.shouldAllocateNodePorts
func allocatesNodePorts(spec *corev1.ServiceSpec) bool {
	return spec.Type == corev1.ServiceTypeNodePort || spec.Type == corev1.ServiceTypeLoadBalancer &&
		(spec.AllocateLoadBalancerNodePorts == nil || *spec.AllocateLoadBalancerNodePorts)
}
