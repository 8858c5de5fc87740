package core

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"net/netip"
	"slices"
	"strconv"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"flyball.dev/apiserver/kinds"
	"flyball.dev/apiserver/kinds/allocator"
	"flyball.dev/apiserver/kinds/fieldrules"
)

// DefaultServiceNetwork is the default range of cluster IPs.
var DefaultServiceNetwork = netip.MustParsePrefix("10.96.0.0/12")

// APIServerIP returns the address of the API server in the range of cluster IPs: the first one that
// is usable.
func APIServerIP(network netip.Prefix) netip.Addr { return network.Masked().Addr().Next() }

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
// stored services when it is first used. Each cluster IP is reserved by an IPAddress.
type serviceAllocator struct {
	services  kinds.Stored[*corev1.Service]
	addresses *Addresses

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
// service had stay, unless its type does not need them. A dry run gets the addresses and ports that
// it asks for even if they are allocated.
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
		return nil, apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Service").GroupKind(), s.Name, a.errs)
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
	c.addresses.delete(c.ips.Commit(s.UID, revision(s), addressesOf(s)))
	c.ports.Commit(s.UID, revision(s), portsOf(s))
}

// Release releases all allocations of a deleted service.
func (c *serviceAllocator) Release(s *corev1.Service) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.loaded {
		c.addresses.delete(c.ips.Release(s.UID))
		c.ports.Release(s.UID)
	}
}

// Reset makes the next write read the allocations of the stored services again.
func (c *serviceAllocator) Reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.loaded = false
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

// whileInUse calls do, during which no service is written, if a service has the address.
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

// carryOverAddresses makes clusterIP and clusterIPs equal, and sets the families.
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
	ctx    context.Context
	dryRun bool
	start  uint32 // where the search begins
	errs   field.ErrorList
}

// undo releases what the write has allocated.
func (a *serviceAllocation) undo() {
	a.addresses.delete(a.ips.Rollback(&a.Write))
	a.ports.Rollback(&a.Write)
}

// families sets the families of a service, which are those of its addresses, and refuses those that
// the cluster does not have.
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

// bothFamilies sets the families of a service whose endpoints may be outside the cluster.
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

// address allocates the requested cluster IP, or any free one.
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

// requested allocates an address that a service asks for, or returns why it cannot have it.
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

// inRange reports whether services can have an address: one of the default network, or of another, of
// which a dry run does not know.
func (a *serviceAllocation) inRange(ip netip.Addr) (bool, error) {
	if contains(a.addresses.Network, ip) || a.dryRun {
		return contains(a.addresses.Network, ip), nil
	}
	networks, err := a.addresses.ranges(a.ctx)
	return slices.ContainsFunc(networks, func(n netip.Prefix) bool { return contains(n, ip) }), err
}

// reserve allocates an address. It returns false if another service has it, or an IPAddress of
// somebody else reserves it.
func (a *serviceAllocation) reserve(s *corev1.Service, ip netip.Addr) (bool, error) {
	if _, taken := a.ips.Owner(ip); !taken {
		if ok, err := a.addresses.create(ip, s.Namespace, s.Name); !ok {
			return false, err
		}
	}
	return a.ips.Allocate(ip, &a.Write), nil
}

// freeAddress allocates an address of the default network, or of another one if that is full.
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

// freeIn allocates an address of a network. It starts its search at an address that depends on the
// service's name, so that the same services get the same addresses in every run.
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

// nodePorts allocates the node ports and the health check node port that the service needs.
func (a *serviceAllocation) nodePorts(s, old *corev1.Service) {
	if hasNodePort(s.Spec.Type) {
		allocate := s.Spec.Type == corev1.ServiceTypeNodePort || s.Spec.AllocateLoadBalancerNodePorts == nil ||
			*s.Spec.AllocateLoadBalancerNodePorts
		list := fieldrules.Spec.Child("ports")
		for i := range s.Spec.Ports {
			at := list.Index(i)
			if p := &s.Spec.Ports[i]; old == nil && p.NodePort != 0 && usedBefore(s.Spec.Ports[:i], p) {
				a.errs = append(a.errs, field.Invalid(at.ChildField("nodePort"), p.NodePort, "provided port is already allocated"))
				continue
			}
			a.nodePort(&s.Spec.Ports[i].NodePort, s.Spec.Ports[i].Protocol, allocate, &at, "nodePort")
		}
	}
	if wantsHealthPort(s) {
		a.nodePort(&s.Spec.HealthCheckNodePort, corev1.ProtocolTCP, true, &fieldrules.Spec, "healthCheckNodePort")
	}
}

// usedBefore reports whether one of the ports before p has its node port for another port.
func usedBefore(before []corev1.ServicePort, p *corev1.ServicePort) bool {
	return slices.ContainsFunc(before, func(o corev1.ServicePort) bool {
		return o.NodePort == p.NodePort && o.Port != p.Port
	})
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
