package core

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"flyball.dev/apiserver/kinds/allocator"
	"flyball.dev/apiserver/kinds/fieldrules"
	"flyball.dev/apiserver/resource"
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
}

// undo releases the allocations of the write.
func (a *serviceAllocation) undo() {
	a.addresses.delete(a.ips.Rollback(&a.Write))
	a.unclaim(a.Owner, a.ports.Rollback(&a.Write))
}

// all allocates what a service needs. It stops at the first error.
func (a *serviceAllocation) all(s, old *corev1.Service) error {
	if s.Spec.Type != corev1.ServiceTypeExternalName && !keepsDualStack(s, old) {
		if errs := families(s, old); len(errs) > 0 {
			return invalidService(s, errs)
		}
		if err := a.address(s, old); err != nil {
			return err
		}
	}
	return a.nodePorts(s, old)
}

// invalidService returns the error that refuses a service.
func invalidService(s *corev1.Service, errs field.ErrorList) error {
	return apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Service").GroupKind(), s.Name, resource.Bounded(errs))
}

// keepsDualStack reports whether an update keeps the addresses and families of a service that prefers two families.
//
//upstream:pkg/registry/core/service/storage.isMatchingPreferDualStackClusterIPFields
func keepsDualStack(s, old *corev1.Service) bool {
	if old == nil || s.Spec.Type != old.Spec.Type || !hasClusterIP(s.Spec.Type) {
		return false
	}
	now, was := s.Spec.IPFamilyPolicy, old.Spec.IPFamilyPolicy
	return now != nil && *now == corev1.IPFamilyPolicyPreferDualStack &&
		(was == nil || *was == corev1.IPFamilyPolicyPreferDualStack) &&
		slices.Equal(s.Spec.ClusterIPs, old.Spec.ClusterIPs) && slices.Equal(s.Spec.IPFamilies, old.Spec.IPFamilies)
}

// families derives the IP families of a service from its addresses, and rejects a family that the cluster does not have.
//
//upstream:pkg/registry/core/service/storage.Allocators.initIPFamilyFields
func families(s, old *corev1.Service) field.ErrorList {
	spec := &s.Spec
	var known []string
	if old != nil {
		known = old.Spec.ClusterIPs
		if spec.IPFamilyPolicy == nil {
			spec.IPFamilyPolicy = old.Spec.IPFamilyPolicy
		}
	}
	if spec.IPFamilyPolicy == nil {
		defaultFamilyPolicy(spec)
	}
	if errs := clusterAddresses(spec, known); len(errs) > 0 {
		return errs
	}
	var errs field.ErrorList
	if old != nil {
		errs = release(spec, &old.Spec)
	}
	if singleStack(spec) {
		errs = append(errs, policyErrors(spec, "must be 'RequireDualStack' or 'PreferDualStack' when multiple %s are specified",
			"cluster IPs", len(spec.ClusterIPs) == 2, "IP families", len(spec.IPFamilies) == 2)...)
	}
	at := fieldrules.Spec.Child("clusterIPs")
	for i, ip := range spec.ClusterIPs {
		if ip == corev1.ClusterIPNone {
			break
		}
		switch {
		case i < len(spec.IPFamilies):
		case familyOf(ip) == corev1.IPv4Protocol:
			spec.IPFamilies = append(slices.Clip(spec.IPFamilies), corev1.IPv4Protocol)
		default:
			item := at.Index(i)
			errs = append(errs, field.Invalid(item.Field(), spec.ClusterIPs,
				fmt.Sprintf("%s is not configured on this cluster", familyOf(ip))))
		}
	}
	if len(errs) > 0 {
		return errs
	}
	if foreignEndpoints(spec) {
		bothFamilies(spec)
		return nil
	}
	return clusterFamilies(spec)
}

// release drops the second address and the second family of a service that becomes SingleStack. With another policy an
// update cannot remove them.
//
//upstream:pkg/registry/core/service/storage.Allocators.initIPFamilyFields
func release(now, was *corev1.ServiceSpec) field.ErrorList {
	if !singleStack(now) {
		return policyErrors(now, "must be 'SingleStack' to release the secondary %s",
			"cluster IP", len(now.ClusterIPs) > 0 && len(now.ClusterIPs) < len(was.ClusterIPs),
			"IP family", len(now.IPFamilies) > 0 && len(now.IPFamilies) < len(was.IPFamilies))
	}
	if len(now.ClusterIPs) > 1 && slices.Equal(now.ClusterIPs, was.ClusterIPs) {
		now.ClusterIPs = now.ClusterIPs[:1]
	}
	if len(now.IPFamilies) > 1 && slices.Equal(now.IPFamilies, was.IPFamilies) {
		now.IPFamilies = now.IPFamilies[:1]
	}
	return nil
}

// policyErrors returns an error of the family policy for the addresses, for the families, or for both.
func policyErrors(spec *corev1.ServiceSpec, format, addresses string, badAddresses bool, families string, badFamilies bool) field.ErrorList {
	var errs field.ErrorList
	for _, bad := range [...]struct {
		is   bool
		what string
	}{{badAddresses, addresses}, {badFamilies, families}} {
		if bad.is {
			errs = append(errs, field.Invalid(fieldrules.Spec.ChildField("ipFamilyPolicy"), spec.IPFamilyPolicy,
				fmt.Sprintf(format, bad.what)))
		}
	}
	return errs
}

// clusterFamilies rejects the families that the cluster does not have, and sets the default.
//
//upstream:pkg/registry/core/service/storage.Allocators.initIPFamilyFields
func clusterFamilies(spec *corev1.ServiceSpec) field.ErrorList {
	var errs field.ErrorList
	if p := spec.IPFamilyPolicy; *p == corev1.IPFamilyPolicyRequireDualStack {
		errs = append(errs, field.Invalid(fieldrules.Spec.ChildField("ipFamilyPolicy"), *p,
			"this cluster is not configured for dual-stack services"))
	}
	for i, f := range spec.IPFamilies {
		if f == corev1.IPv6Protocol {
			errs = append(errs, field.Invalid(fieldrules.Spec.ChildField("ipFamilies").Index(i), f,
				"not configured on this cluster"))
		}
	}
	if len(errs) == 0 && len(spec.IPFamilies) == 0 {
		spec.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol}
	}
	return errs
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

// address allocates the requested cluster IP, or a free cluster IP if the service requests none. The address of an existing
// service does not change.
//
//upstream:pkg/registry/core/service/storage.Allocators.updateClusterIPs
//upstream:pkg/registry/core/service/storage.Allocators.allocClusterIPs
//upstream:pkg/registry/core/service/storage.Allocators.allocIPs
func (a *serviceAllocation) address(s, old *corev1.Service) error {
	if old != nil && old.Spec.Type != corev1.ServiceTypeExternalName && !slices.Equal(s.Spec.ClusterIPs, old.Spec.ClusterIPs) {
		return nil
	}
	at := fieldrules.Spec.ChildField("clusterIPs")
	if len(s.Spec.ClusterIPs) == 0 {
		ip, ok, err := a.addresses.Network.Addr(), a.dryRun, error(nil) // no service can have the first address
		if !a.dryRun {
			ip, ok, err = a.freeAddress(s)
		}
		switch {
		case err != nil:
			return invalidService(s, field.ErrorList{field.Invalid(at, s.Spec.ClusterIPs, "failed to allocate IP: "+err.Error())})
		case !ok:
			return apierrors.NewInternalError(fmt.Errorf("failed to allocate a serviceIP for Service %q: range is full", s.Name))
		}
		s.Spec.ClusterIP, s.Spec.ClusterIPs = ip.String(), []string{ip.String()}
		return nil
	}
	for _, ip := range addressesOf(s) {
		why, err := a.requested(s, ip)
		if err != nil {
			why = err.Error()
		}
		if why != "" {
			return invalidService(s, field.ErrorList{field.Invalid(at, s.Spec.ClusterIPs,
				fmt.Sprintf("failed to allocate IP %s: %s", ip, why))})
		}
	}
	return nil
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
func (a *serviceAllocation) nodePorts(s, old *corev1.Service) error {
	if hasNodePort(s.Spec.Type) {
		var used usedNodePorts
		for i := range s.Spec.Ports {
			p := &s.Spec.Ports[i]
			why := ""
			switch {
			case old == nil && p.NodePort != 0 && used.byOther(p):
				why = takenPort
			case p.NodePort != 0:
				why = a.nodePort(nodePort{p.Protocol, p.NodePort})
			case allocatesNodePorts(&s.Spec) && !a.freeNodePort(&p.NodePort, p.Protocol):
				return apierrors.NewInternalError(errors.New("failed to allocate a nodePort: " + fullPorts))
			}
			if why != "" {
				return invalidService(s, field.ErrorList{field.Invalid(
					fieldrules.Spec.ChildField("ports").Index(i).Child("nodePort"), p.NodePort, why)})
			}
			used.add(p)
		}
	}
	return a.healthPort(s, old)
}

// healthPort allocates the health check node port of a service that had none.
//
//upstream:pkg/registry/core/service/storage.Allocators.allocHealthCheckNodePort
//upstream:pkg/registry/core/service/storage.Allocators.updateHealthCheckNodePort
func (a *serviceAllocation) healthPort(s, old *corev1.Service) error {
	number := &s.Spec.HealthCheckNodePort
	if !wantsHealthPort(s) || old != nil && wantsHealthPort(old) && *number != old.Spec.HealthCheckNodePort {
		return nil
	}
	if *number == 0 {
		if !a.freeNodePort(number, corev1.ProtocolTCP) {
			return apierrors.NewInternalError(errors.New("failed to allocate a HealthCheck NodePort 0: " + fullPorts))
		}
		return nil
	}
	if why := a.nodePort(nodePort{corev1.ProtocolTCP, *number}); why != "" {
		return apierrors.NewInternalError(fmt.Errorf("failed to allocate requested HealthCheck NodePort %v: %s", *number, why))
	}
	return nil
}

// What keeps a service from a node port.
//
//upstream:pkg/registry/core/service/portallocator.ErrFull
//upstream:pkg/registry/core/service/portallocator.ErrAllocated
const (
	fullPorts = "range is full"
	takenPort = "provided port is already allocated"
)

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

// nodePort allocates the node port that a service requests. If the service cannot have it, nodePort returns the reason.
//
//upstream:pkg/registry/core/service/portallocator.PortAllocator.Allocate
//upstream:pkg/registry/core/service/portallocator.PortAllocationOperation
func (a *serviceAllocation) nodePort(p nodePort) string {
	if a.dryRun {
		return ""
	}
	_, taken := a.ports.Owner(p)
	if !taken && (p.number < firstNodePort || p.number > lastNodePort) {
		return fmt.Sprintf("provided port is not in the valid range. The range of valid ports is %d-%d", firstNodePort, lastNodePort)
	}
	if !taken {
		switch claimed, err := a.claim(a.ctx, p, a.Owner); {
		case err != nil:
			return err.Error()
		case !claimed:
			return takenPort
		}
	}
	if !a.ports.Allocate(p, &a.Write) {
		return takenPort
	}
	return ""
}

// freeNodePort allocates a free node port, and reports whether there is one. If the storage fails, there is none.
//
//upstream:pkg/registry/core/service/portallocator.PortAllocator.AllocateNext
func (a *serviceAllocation) freeNodePort(number *int32, protocol corev1.Protocol) bool {
	const n = lastNodePort - firstNodePort + 1
	start := int32(a.start % n)
	for i := range int32(n) {
		p := nodePort{protocol, firstNodePort + (start+i)%n}
		if _, taken := a.ports.Owner(p); taken {
			continue
		}
		switch claimed, err := a.claim(a.ctx, p, a.Owner); {
		case err != nil:
			return false
		case claimed:
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
