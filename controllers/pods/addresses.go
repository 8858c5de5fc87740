package pods

import (
	"fmt"
	"net/netip"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// addresses gives each pod an address of its own from one network. Its methods may be called from
// many goroutines.
type addresses struct {
	network netip.Prefix

	mu    sync.Mutex
	last  netip.Addr
	taken map[netip.Addr]types.NamespacedName
	of    map[types.NamespacedName]netip.Addr
}

func newAddresses(network netip.Prefix) *addresses {
	return &addresses{
		network: network,
		last:    network.Addr(),
		taken:   map[netip.Addr]types.NamespacedName{},
		of:      map[types.NamespacedName]netip.Addr{},
	}
}

// keep takes note of an address that a pod has already.
func (a *addresses) keep(pod types.NamespacedName, address string) {
	addr, err := netip.ParseAddr(address)
	if err != nil || !a.network.Contains(addr) {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, ok := a.of[pod]; !ok {
		a.of[pod] = addr
		a.taken[addr] = pod
	}
}

// give returns the address of a pod, a free one if it has none. It fails when the network is full.
func (a *addresses) give(pod types.NamespacedName) (string, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if addr, ok := a.of[pod]; ok {
		return addr.String(), nil
	}
	// The search begins behind the last one given, so that an address is not used again at once. The
	// network's own address is never given.
	first := a.last
	for {
		if a.last = a.last.Next(); !a.network.Contains(a.last) {
			a.last = a.network.Addr()
		}
		if _, taken := a.taken[a.last]; !taken && a.last != a.network.Addr() {
			a.of[pod], a.taken[a.last] = a.last, pod
			return a.last.String(), nil
		}
		if a.last == first {
			return "", fmt.Errorf("no free address in %s", a.network)
		}
	}
}

// free gives back the address of a pod that is gone.
func (a *addresses) free(pod types.NamespacedName) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if addr, ok := a.of[pod]; ok {
		delete(a.of, pod)
		delete(a.taken, addr)
	}
}
