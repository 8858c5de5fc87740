package core

import (
	"context"
	"fmt"
	"hash/fnv"
	"net/netip"
	"slices"
	"strconv"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"flyball.dev/apiserver/kinds"
	"flyball.dev/apiserver/kinds/allocator"
	"flyball.dev/apiserver/kinds/fieldrules"
)

// serviceNetwork is the range of cluster IPs. Its first address is that of the API server.
var serviceNetwork = netip.MustParsePrefix("10.96.0.0/12")

// ServiceNetwork returns the range of cluster IPs.
func ServiceNetwork() netip.Prefix { return serviceNetwork }

// APIServerIP returns the address of the API server in the service network.
func APIServerIP() netip.Addr { return serviceNetwork.Addr().Next() }

// serviceAddresses is how many addresses of the network are usable: all but the first and the last.
const serviceAddresses = 1<<(32-12) - 2

// The range of node ports.
const (
	firstNodePort = 30000
	lastNodePort  = 32767
)

func wantsHealthPort(s *corev1.Service) bool {
	return s.Spec.Type == corev1.ServiceTypeLoadBalancer &&
		s.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal
}

// serviceAllocator allocates cluster IPs and node ports. It reads the allocated ones from the
// stored services when it is first used.
type serviceAllocator struct {
	services kinds.Stored[*corev1.Service]

	mu     sync.Mutex
	loaded bool
	ips    *allocator.Allocator[netip.Addr]
	ports  *allocator.Allocator[nodePort]
}

// nodePort is a node port, of which each protocol has its own.
type nodePort struct {
	protocol corev1.Protocol
	number   int32
}

// Allocate sets the addresses and the node ports that the service's type needs. Those that the
// service had stay, unless its type does not need them.
func (c *serviceAllocator) Allocate(ctx context.Context, s, old *corev1.Service) (func(), error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.load(ctx); err != nil {
		return nil, err
	}
	carryOverAddresses(s, old)
	carryOverPorts(s, old)
	a := &serviceAllocation{serviceAllocator: c, start: spread(s.Namespace + "/" + s.Name)}
	a.Owner = s.UID
	if old != nil {
		a.Owner, a.Revision = old.UID, revision(old)
	}
	if hasClusterIP(s.Spec.Type) {
		a.families(s)
		a.address(s)
	}
	a.nodePorts(s)
	if len(a.errs) > 0 {
		a.undo()
		return nil, errors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Service").GroupKind(), s.Name, a.errs)
	}
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		a.undo()
	}, nil
}

// Commit releases the addresses and ports that the service does not have any more.
func (c *serviceAllocator) Commit(s *corev1.Service) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ips.Commit(s.UID, revision(s), addressesOf(s))
	c.ports.Commit(s.UID, revision(s), portsOf(s))
}

// Release releases all allocations of a deleted service.
func (c *serviceAllocator) Release(s *corev1.Service) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.loaded {
		c.ips.Release(s.UID)
		c.ports.Release(s.UID)
	}
}

// revision returns the revision in the resource version of a stored object.
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

// portsOf returns the node ports of a service.
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

func (c *serviceAllocator) load(ctx context.Context) error {
	if c.loaded {
		return nil
	}
	c.ips, c.ports = allocator.New[netip.Addr](), allocator.New[nodePort]()
	err := c.services.List(ctx, func(s *corev1.Service) {
		w := &allocator.Write{Owner: s.UID, Revision: revision(s)}
		for _, a := range addressesOf(s) {
			c.ips.Allocate(a, w)
		}
		for _, p := range portsOf(s) {
			c.ports.Allocate(p, w)
		}
	})
	c.loaded = err == nil
	return err
}

// carryOverAddresses makes clusterIP and clusterIPs equal, and sets the families.
func carryOverAddresses(s, old *corev1.Service) {
	spec := &s.Spec
	if !hasClusterIP(spec.Type) {
		if old != nil && hasClusterIP(old.Spec.Type) && spec.ClusterIP == old.Spec.ClusterIP {
			spec.ClusterIP, spec.ClusterIPs = "", nil
		}
		if spec.Type == corev1.ServiceTypeExternalName && old != nil && hasClusterIP(old.Spec.Type) {
			spec.IPFamilies, spec.IPFamilyPolicy = nil, nil
		}
		return
	}
	if old != nil && hasClusterIP(old.Spec.Type) {
		switch {
		case spec.ClusterIP == "" && len(spec.ClusterIPs) == 0:
			spec.ClusterIP, spec.ClusterIPs = old.Spec.ClusterIP, slices.Clone(old.Spec.ClusterIPs)
		case spec.ClusterIP != old.Spec.ClusterIP && slices.Equal(spec.ClusterIPs, old.Spec.ClusterIPs):
			spec.ClusterIPs = nil
		}
		if len(spec.IPFamilies) == 0 {
			spec.IPFamilies = old.Spec.IPFamilies
		}
		if spec.IPFamilyPolicy == nil {
			spec.IPFamilyPolicy = old.Spec.IPFamilyPolicy
		}
	}
	if spec.ClusterIP != "" && len(spec.ClusterIPs) == 0 {
		spec.ClusterIPs = []string{spec.ClusterIP}
	}
	carryOverFamilies(spec)
}

// carryOverFamilies sets the families. A headless service without a selector may have both, since
// its endpoints may be outside the cluster.
func carryOverFamilies(spec *corev1.ServiceSpec) {
	foreign := spec.ClusterIP == corev1.ClusterIPNone && len(spec.Selector) == 0
	if foreign {
		fieldrules.DefaultPointer(&spec.IPFamilyPolicy, corev1.IPFamilyPolicyRequireDualStack)
	}
	fieldrules.DefaultPointer(&spec.IPFamilyPolicy, corev1.IPFamilyPolicySingleStack)
	if len(spec.IPFamilies) == 0 {
		spec.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol}
	}
	if foreign && len(spec.IPFamilies) == 1 && *spec.IPFamilyPolicy != corev1.IPFamilyPolicySingleStack {
		other := corev1.IPv6Protocol
		if spec.IPFamilies[0] == other {
			other = corev1.IPv4Protocol
		}
		spec.IPFamilies = append(slices.Clip(spec.IPFamilies), other)
	}
}

// carryOverPorts copies the node ports of existing ports, and drops all if the new type has none.
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

// serviceAllocation are the allocations of one write of a service. The allocator is locked.
type serviceAllocation struct {
	*serviceAllocator
	allocator.Write
	start uint32 // where the search begins
	errs  field.ErrorList
}

// undo releases what the write has allocated.
func (a *serviceAllocation) undo() {
	a.ips.Rollback(&a.Write)
	a.ports.Rollback(&a.Write)
}

// families refuses address families that the cluster does not have.
func (a *serviceAllocation) families(s *corev1.Service) {
	if s.Spec.ClusterIP == corev1.ClusterIPNone && len(s.Spec.Selector) == 0 {
		return
	}
	if p := s.Spec.IPFamilyPolicy; *p == corev1.IPFamilyPolicyRequireDualStack {
		a.errs = append(a.errs, field.Invalid(fieldrules.Spec.ChildField("ipFamilyPolicy"), *p,
			"this cluster is not configured for dual-stack services"))
	}
	for i, f := range s.Spec.IPFamilies {
		if f == corev1.IPv6Protocol {
			a.errs = append(a.errs, field.Invalid(fieldrules.Spec.ChildField("ipFamilies").Index(i), f,
				"not configured on this cluster"))
		}
	}
}

// address allocates the requested cluster IP, or any free one.
func (a *serviceAllocation) address(s *corev1.Service) {
	if len(s.Spec.ClusterIPs) == 0 {
		ip, ok := a.freeAddress()
		if !ok {
			a.errs = append(a.errs, field.InternalError(fieldrules.Spec.ChildField("clusterIPs"),
				fmt.Errorf("failed to allocate a serviceIP: range is full")))
			return
		}
		s.Spec.ClusterIP, s.Spec.ClusterIPs = ip.String(), []string{ip.String()}
		return
	}
	for _, ip := range addressesOf(s) {
		switch _, taken := a.ips.Owner(ip); {
		case !taken && !serviceNetwork.Contains(ip):
			a.refuseAddress(s, ip,
				"the provided IP is not in the valid range. The range of valid IPs is "+serviceNetwork.String())
		case !a.ips.Allocate(ip, &a.Write):
			a.refuseAddress(s, ip, "provided IP is already allocated")
		}
	}
}

// refuseAddress adds the error for a cluster IP that cannot be allocated.
func (a *serviceAllocation) refuseAddress(s *corev1.Service, ip netip.Addr, why string) {
	a.errs = append(a.errs, field.Invalid(fieldrules.Spec.ChildField("clusterIPs"), s.Spec.ClusterIPs,
		fmt.Sprintf("failed to allocate IP %s: %s", ip, why)))
}

// freeAddress starts its search at an address that depends on the service's name, so that the same
// services get the same addresses in every run.
func (a *serviceAllocation) freeAddress() (netip.Addr, bool) {
	base := serviceNetwork.Addr().As4()
	first := uint32(base[0])<<24 | uint32(base[1])<<16 | uint32(base[2])<<8 | uint32(base[3])
	for i := range uint32(serviceAddresses) {
		n := first + 1 + (a.start+i)%serviceAddresses
		ip := netip.AddrFrom4([4]byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)})
		if _, taken := a.ips.Owner(ip); !taken && n != first+1 {
			return ip, a.ips.Allocate(ip, &a.Write)
		}
	}
	return netip.Addr{}, false
}

// nodePorts allocates the node ports and the health check node port that the service needs.
func (a *serviceAllocation) nodePorts(s *corev1.Service) {
	if hasNodePort(s.Spec.Type) {
		allocate := s.Spec.Type == corev1.ServiceTypeNodePort || s.Spec.AllocateLoadBalancerNodePorts == nil ||
			*s.Spec.AllocateLoadBalancerNodePorts
		list := fieldrules.Spec.Child("ports")
		for i := range s.Spec.Ports {
			at := list.Index(i)
			a.nodePort(&s.Spec.Ports[i].NodePort, s.Spec.Ports[i].Protocol, allocate, &at, "nodePort")
		}
	}
	if wantsHealthPort(s) {
		a.nodePort(&s.Spec.HealthCheckNodePort, corev1.ProtocolTCP, true, &fieldrules.Spec, "healthCheckNodePort")
	}
}

// nodePort allocates the requested port, or any free one.
func (a *serviceAllocation) nodePort(number *int32, protocol corev1.Protocol, allocate bool, fldPath *fieldrules.Path,
	name string) {
	if *number == 0 {
		if allocate && !a.freeNodePort(number, protocol) {
			a.errs = append(a.errs, field.InternalError(fldPath.ChildField(name),
				fmt.Errorf("failed to allocate a nodePort: range is full")))
		}
		return
	}
	p := nodePort{protocol, *number}
	switch _, taken := a.ports.Owner(p); {
	case !taken && (*number < firstNodePort || *number > lastNodePort):
		a.errs = append(a.errs, field.Invalid(fldPath.ChildField(name), *number,
			fmt.Sprintf("provided port is not in the valid range. The range of valid ports is %d-%d",
				firstNodePort, lastNodePort)))
	case !a.ports.Allocate(p, &a.Write):
		a.errs = append(a.errs, field.Invalid(fldPath.ChildField(name), *number, "provided port is already allocated"))
	}
}

// freeNodePort allocates a free node port, and reports whether there was one.
func (a *serviceAllocation) freeNodePort(number *int32, protocol corev1.Protocol) bool {
	const n = lastNodePort - firstNodePort + 1
	start := int32(a.start % n)
	for i := range int32(n) {
		p := nodePort{protocol, firstNodePort + (start+i)%n}
		if _, taken := a.ports.Owner(p); !taken {
			*number = p.number
			return a.ports.Allocate(p, &a.Write)
		}
	}
	return false
}

func spread(s string) uint32 {
	h := fnv.New32a()
	h.Write([]byte(s))
	return h.Sum32()
}
