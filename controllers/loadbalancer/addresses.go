package loadbalancer

import (
	"fmt"
	"net/netip"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// Network has the addresses of load balancers. It overlaps no network of Services, pods or nodes.
var Network = netip.MustParsePrefix("10.64.0.0/16")

// addresses allocates the addresses of load balancers. Its methods may be called from several goroutines at once.
type addresses struct {
	mu   sync.Mutex
	of   map[netip.Addr]types.NamespacedName
	by   map[types.NamespacedName]netip.Addr
	last netip.Addr // that was allocated
}

func newAddresses() *addresses {
	return &addresses{of: map[netip.Addr]types.NamespacedName{}, by: map[types.NamespacedName]netip.Addr{}, last: Network.Addr()}
}

// use gives an address to an owner, unless another one has it. The owner loses the address that it had before.
func (a *addresses) use(owner types.NamespacedName, address netip.Addr) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if other, ok := a.of[address]; ok && other != owner {
		return fmt.Errorf("the address %s is used by service %s", address, other)
	}
	a.forget(owner)
	a.of[address], a.by[owner] = owner, address
	return nil
}

// allocate returns the address of an owner, or gives it a free one. Addresses are not used again soon.
func (a *addresses) allocate(owner types.NamespacedName) (netip.Addr, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if address, ok := a.by[owner]; ok {
		return address, nil
	}
	for range 1 << (32 - Network.Bits()) {
		if a.last = a.last.Next(); !Network.Contains(a.last) {
			a.last = Network.Addr().Next()
		}
		if _, used := a.of[a.last]; !used && a.last != ingressAddress {
			a.of[a.last], a.by[owner] = owner, a.last
			return a.last, nil
		}
	}
	return netip.Addr{}, fmt.Errorf("no address is free in %s", Network)
}

// release frees the address of an owner.
func (a *addresses) release(owner types.NamespacedName) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.forget(owner)
}

func (a *addresses) forget(owner types.NamespacedName) {
	if address, ok := a.by[owner]; ok {
		delete(a.of, address)
		delete(a.by, owner)
	}
}
