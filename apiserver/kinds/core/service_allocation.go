package core

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"flyball.dev/apiserver/kinds/allocator"
	"flyball.dev/apiserver/kinds/fieldrules"
)

// The range of node ports.
//
//upstream:pkg/kubeapiserver/options.DefaultServiceNodePortRange
const (
	firstNodePort = 30000
	lastNodePort  = 32767
)

// serviceAllocation has the allocations of one write of a service. The writer holds the lock of the
// allocator.
type serviceAllocation struct {
	*serviceAllocator
	allocator.Write
	ctx    context.Context
	dryRun bool
	start  uint32 // where the search begins
	errs   field.ErrorList
}

// undo releases the allocations of the write.
func (a *serviceAllocation) undo() {
	a.addresses.delete(a.ips.Rollback(&a.Write))
	a.ports.Rollback(&a.Write)
}

// families derives the IP families of a service from its addresses, and rejects a family that the cluster
// does not have.
//
//upstream:pkg/registry/core/service/storage.Allocators.initIPFamilyFields
func (a *serviceAllocation) families(s *corev1.Service) {
	spec := &s.Spec
	at := fieldrules.Spec.Child("clusterIPs")
	for i, ip := range spec.ClusterIPs {
		switch {
		case ip == corev1.ClusterIPNone || i < len(spec.IPFamilies):
		case familyOf(ip) == corev1.IPv4Protocol:
			spec.IPFamilies = append(slices.Clip(spec.IPFamilies), corev1.IPv4Protocol)
		default:
			item := at.Index(i)
			a.errs = append(a.errs, field.Invalid(item.Field(), spec.ClusterIPs,
				fmt.Sprintf("%s is not configured on this cluster", familyOf(ip))))
		}
	}
	if len(a.errs) > 0 {
		return
	}
	if foreignEndpoints(spec) {
		bothFamilies(spec)
		return
	}
	if p := spec.IPFamilyPolicy; *p == corev1.IPFamilyPolicyRequireDualStack {
		a.errs = append(a.errs, field.Invalid(fieldrules.Spec.ChildField("ipFamilyPolicy"), *p,
			"this cluster is not configured for dual-stack services"))
	}
	for i, f := range spec.IPFamilies {
		if f == corev1.IPv6Protocol {
			a.errs = append(a.errs, field.Invalid(fieldrules.Spec.ChildField("ipFamilies").Index(i), f,
				"not configured on this cluster"))
		}
	}
	if len(spec.IPFamilies) == 0 {
		spec.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol}
	}
}

// bothFamilies sets the families of a headless service without a selector.
//
//upstream:pkg/registry/core/service/storage.Allocators.initIPFamilyFields
func bothFamilies(spec *corev1.ServiceSpec) {
	if len(spec.IPFamilies) == 0 {
		spec.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol}
	}
	if len(spec.IPFamilies) > 1 || *spec.IPFamilyPolicy == corev1.IPFamilyPolicySingleStack {
		return
	}
	other := corev1.IPv6Protocol
	if spec.IPFamilies[0] == other {
		other = corev1.IPv4Protocol
	}
	spec.IPFamilies = append(slices.Clip(spec.IPFamilies), other)
}

// address allocates the requested cluster IP, or a free cluster IP if the service requests none.
//
//upstream:pkg/registry/core/service/storage.Allocators.allocClusterIPs
//upstream:pkg/registry/core/service/storage.Allocators.allocIPs
func (a *serviceAllocation) address(s *corev1.Service) {
	at := fieldrules.Spec.ChildField("clusterIPs")
	if len(s.Spec.ClusterIPs) == 0 {
		ip, ok, err := a.addresses.Network.Addr(), a.dryRun, error(nil) // no service can have the first address
		if !a.dryRun {
			ip, ok, err = a.freeAddress(s)
		}
		if !ok && err == nil {
			err = errors.New("range is full")
		}
		if err != nil {
			a.errs = append(a.errs, field.InternalError(at, fmt.Errorf("failed to allocate a serviceIP: %w", err)))
			return
		}
		s.Spec.ClusterIP, s.Spec.ClusterIPs = ip.String(), []string{ip.String()}
		return
	}
	for _, ip := range addressesOf(s) {
		why, err := a.requested(s, ip)
		switch {
		case err != nil:
			a.errs = append(a.errs, field.InternalError(at, err))
		case why != "":
			a.errs = append(a.errs, field.Invalid(at, s.Spec.ClusterIPs, fmt.Sprintf("failed to allocate IP %s: %s", ip, why)))
		}
	}
}

// requested allocates the address that a service requests. If the service cannot have the address,
// requested returns the reason.
//
//upstream:pkg/registry/core/service/ipallocator.MetaAllocator.AllocateService
//upstream:pkg/registry/core/service/ipallocator.Allocator.allocateService
func (a *serviceAllocation) requested(s *corev1.Service, ip netip.Addr) (why string, err error) {
	if _, taken := a.ips.Owner(ip); !taken {
		within, err := a.inRange(ip)
		switch {
		case err != nil:
			return "", err
		case !within && a.dryRun:
			return fmt.Sprintf("the provided IP (%s) is not in the valid range. The range of valid IPs is %s", ip, a.addresses.Network), nil
		case !within:
			return "the provided network does not match the current range", nil
		}
	}
	if a.dryRun {
		return "", nil
	}
	ok, err := a.reserve(s, ip)
	if !ok && err == nil {
		why = "provided IP is already allocated"
	}
	return why, err
}

// inRange reports whether services can have an address. A dry run knows the default network only.
//
//upstream:pkg/registry/core/service/ipallocator.MetaAllocator.getAllocator
//upstream:pkg/registry/core/service/ipallocator.MetaAllocator.DryRun
func (a *serviceAllocation) inRange(ip netip.Addr) (bool, error) {
	if contains(a.addresses.Network, ip) || a.dryRun {
		return contains(a.addresses.Network, ip), nil
	}
	networks, err := a.addresses.ranges(a.ctx)
	return slices.ContainsFunc(networks, func(n netip.Prefix) bool { return contains(n, ip) }), err
}

// reserve allocates an address. It returns false if another service has the address, or an IPAddress that
// a user created reserves it.
//
//upstream:pkg/registry/core/service/ipallocator.Allocator.allocateService
func (a *serviceAllocation) reserve(s *corev1.Service, ip netip.Addr) (bool, error) {
	if _, taken := a.ips.Owner(ip); !taken {
		if ok, err := a.addresses.create(ip, s.Namespace, s.Name); !ok {
			return false, err
		}
	}
	return a.ips.Allocate(ip, &a.Write), nil
}

// freeAddress allocates an address of the default network, or of another network if the default network
// is full.
//
//upstream:pkg/registry/core/service/ipallocator.MetaAllocator.AllocateNextService
func (a *serviceAllocation) freeAddress(s *corev1.Service) (netip.Addr, bool, error) {
	if ip, ok, err := a.freeIn(a.addresses.Network, s); ok || err != nil {
		return ip, ok, err
	}
	networks, err := a.addresses.ranges(a.ctx)
	for _, network := range networks {
		if ip, ok, err := a.freeIn(network, s); ok || err != nil {
			return ip, ok, err
		}
	}
	return netip.Addr{}, false, err
}

// freeIn allocates an address of a network. A hash of the name of the service determines the start of
// the search, so that equal services get equal addresses in every run.
//
//upstream:pkg/registry/core/service/ipallocator.Allocator.allocateNextService
//upstream:pkg/registry/core/service/ipallocator.Allocator.allocateFromRange
func (a *serviceAllocation) freeIn(network netip.Prefix, s *corev1.Service) (netip.Addr, bool, error) {
	lowest, highest := usable(network)
	if highest.Less(lowest) {
		return netip.Addr{}, false, nil
	}
	first := toNumber(lowest.As4())
	size := toNumber(highest.As4()) - first + 1
	for i := range size {
		ip := fromNumber(first + (a.start+i)%size)
		if _, taken := a.ips.Owner(ip); taken || ip == APIServerIP(a.addresses.Network) {
			continue
		}
		if ok, err := a.reserve(s, ip); ok || err != nil {
			return ip, ok, err
		}
	}
	return netip.Addr{}, false, nil
}

// nodePorts allocates the node ports and the health check node port of a service.
//
//upstream:pkg/registry/core/service/storage.initNodePorts
//upstream:pkg/registry/core/service/storage.Allocators.updateNodePorts
//upstream:pkg/registry/core/service/storage.Allocators.allocHealthCheckNodePort
//upstream:pkg/registry/core/service/storage.shouldAllocateNodePorts
func (a *serviceAllocation) nodePorts(s, old *corev1.Service) {
	if hasNodePort(s.Spec.Type) {
		allocate := s.Spec.Type == corev1.ServiceTypeNodePort || s.Spec.AllocateLoadBalancerNodePorts == nil ||
			*s.Spec.AllocateLoadBalancerNodePorts
		list := fieldrules.Spec.Child("ports")
		var used usedNodePorts
		for i := range s.Spec.Ports {
			at := list.Index(i)
			p := &s.Spec.Ports[i]
			if old == nil && p.NodePort != 0 && used.byOther(p) {
				a.errs = append(a.errs, field.Invalid(at.ChildField("nodePort"), p.NodePort, "provided port is already allocated"))
			} else {
				a.nodePort(&p.NodePort, p.Protocol, allocate, &at, "nodePort")
			}
			used.add(p)
		}
	}
	if wantsHealthPort(s) {
		a.nodePort(&s.Spec.HealthCheckNodePort, corev1.ProtocolTCP, true, &fieldrules.Spec, "healthCheckNodePort")
	}
}

// usedNodePorts maps each node port of a service to the port that has it. The map shared has the node
// ports of several ports.
//
//upstream:pkg/registry/core/service/storage.findRequestedNodePort
type usedNodePorts struct{ ports, shared map[int32]int32 }

// byOther reports whether another port has the node port of p.
func (u *usedNodePorts) byOther(p *corev1.ServicePort) bool {
	port, used := u.ports[p.NodePort]
	_, shared := u.shared[p.NodePort]
	return used && port != p.Port || shared
}

func (u *usedNodePorts) add(p *corev1.ServicePort) {
	if u.ports == nil {
		u.ports, u.shared = map[int32]int32{}, map[int32]int32{}
	}
	if u.byOther(p) {
		u.shared[p.NodePort] = p.Port
	}
	u.ports[p.NodePort] = p.Port
}

// nodePort allocates the requested node port, or a free node port if number is 0.
//
//upstream:pkg/registry/core/service/portallocator.PortAllocator.Allocate
//upstream:pkg/registry/core/service/portallocator.PortAllocationOperation
func (a *serviceAllocation) nodePort(number *int32, protocol corev1.Protocol, allocate bool, fldPath *fieldrules.Path,
	name string) {
	if *number == 0 {
		if allocate && !a.freeNodePort(number, protocol) {
			a.errs = append(a.errs, field.InternalError(fldPath.ChildField(name),
				fmt.Errorf("failed to allocate a nodePort: range is full")))
		}
		return
	}
	if a.dryRun {
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

// freeNodePort allocates a free node port, and reports whether there is one.
//
//upstream:pkg/registry/core/service/portallocator.PortAllocator.AllocateNext
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

// spread returns the hash at which the search for free addresses and ports starts.
func spread(s string) uint32 {
	h := fnv.New32a()
	h.Write([]byte(s))
	return h.Sum32()
}
