package loadbalancer

import (
	"fmt"
	"net/netip"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// Network has the addresses of load balancers. It overlaps no network of Services, pods or nodes.
var Network = netip.MustParsePrefix("10.64.0.0/16")

// addresses allocates the addresses of load balancers. Its methods may be called from several goroutines at once.
type addresses struct {
	mu      sync.Mutex
	of      map[netip.Addr]types.NamespacedName
	by      map[types.NamespacedName]netip.Addr
	last    netip.Addr // that was allocated
	waiting []waiter   // in the order of their first attempts
	freed   func(types.NamespacedName)
}

// waiter is an owner that was refused an address.
type waiter struct {
	owner types.NamespacedName
	want  netip.Addr // the zero Addr is any address of the network
}

// newAddresses returns addresses that are all free. When an address is freed, freed is called with each owner that was refused it
// before. The function must not call methods of the addresses.
func newAddresses(freed func(types.NamespacedName)) *addresses {
	return &addresses{of: map[netip.Addr]types.NamespacedName{}, by: map[types.NamespacedName]netip.Addr{}, last: Network.Addr(), freed: freed}
}

// use gives an address to an owner, unless another one has it. The owner loses the address that it had before.
func (a *addresses) use(owner types.NamespacedName, address netip.Addr) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if address == ingressAddress {
		return fmt.Errorf("the address %s is used by Ingresses", address)
	}
	if other, ok := a.of[address]; ok && other != owner {
		a.wait(owner, address)
		return fmt.Errorf("the address %s is used by service %s", address, other)
	}
	if a.by[owner] != address {
		a.forget(owner)
		a.of[address], a.by[owner] = owner, address
	}
	a.waitNoLonger(owner)
	return nil
}

// allocate returns the address of an owner, or gives it a free one. Addresses are not used again soon.
func (a *addresses) allocate(owner types.NamespacedName) (netip.Addr, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if address, ok := a.by[owner]; ok {
		a.waitNoLonger(owner)
		return address, nil
	}
	for range 1 << (32 - Network.Bits()) {
		if a.last = a.last.Next(); !Network.Contains(a.last) {
			a.last = Network.Addr().Next()
		}
		if _, used := a.of[a.last]; !used && a.last != ingressAddress {
			a.of[a.last], a.by[owner] = owner, a.last
			a.waitNoLonger(owner)
			return a.last, nil
		}
	}
	a.wait(owner, netip.Addr{})
	return netip.Addr{}, fmt.Errorf("no address is free in %s", Network)
}

// release frees the address of an owner, which no longer waits for one.
func (a *addresses) release(owner types.NamespacedName) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.waitNoLonger(owner)
	a.forget(owner)
}

// forget frees the address of an owner.
func (a *addresses) forget(owner types.NamespacedName) {
	address, ok := a.by[owner]
	if !ok {
		return
	}
	delete(a.of, address)
	delete(a.by, owner)
	for _, w := range a.waiting {
		if w.want == address || !w.want.IsValid() && Network.Contains(address) {
			a.freed(w.owner)
		}
	}
}

func (a *addresses) wait(owner types.NamespacedName, want netip.Addr) {
	for i := range a.waiting {
		if a.waiting[i].owner == owner {
			a.waiting[i].want = want
			return
		}
	}
	a.waiting = append(a.waiting, waiter{owner, want})
}

func (a *addresses) waitNoLonger(owner types.NamespacedName) {
	a.waiting = slices.DeleteFunc(a.waiting, func(w waiter) bool { return w.owner == owner })
}
