package pods

import (
	"container/list"
	"encoding/binary"
	"net/netip"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/buffer"
)

// maxReleased is the number of released addresses above which the oldest is reused, while there are addresses that were
// never allocated. It makes it unlikely that a client with the address of a deleted pod reaches another pod.
const maxReleased = 1 << 12

// addresses allocates an address from one IPv4 network to each pod, in amortized constant time. Its
// methods may be called from several goroutines at once.
//
// Addresses are offsets from the network's own address, which is never allocated.
type addresses struct {
	network netip.Prefix
	first   uint32
	size    uint32

	mu       sync.Mutex
	owners   owners
	next     uint32 // only occupy has allocated addresses from here on
	released buffer.TypedRingGrowing[uint32]
	waiting  waiting
	returned map[types.NamespacedName]struct{} // pods that release has returned, without an address yet
}

// newAddresses returns an allocator for a network. All addresses are free.
func newAddresses(network netip.Prefix) *addresses {
	network = network.Masked()
	first := network.Addr().As4()
	return &addresses{
		network: network,
		first:   binary.BigEndian.Uint32(first[:]),
		size:    1<<(32-max(network.Bits(), 1)) - 1, // without the last one, the broadcast address
		owners:  newOwners(),
		next:    1,
		waiting: waiting{at: map[types.NamespacedName]*list.Element{}},

		returned: map[types.NamespacedName]struct{}{},
	}
}

// occupy allocates an address to a pod that has the address already. If two pods have the same address, the first pod
// keeps it, and allocate returns another address for the second.
func (a *addresses) occupy(pod types.NamespacedName, address string) {
	n, ok := a.offset(address)
	if !ok {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, ok := a.owners.address(pod); !ok && n > 0 && n < a.size && !a.isAllocated(n) {
		a.owners.add(pod, n)
	}
}

// owner returns the pod that an address is allocated to.
func (a *addresses) owner(address string) (pod types.NamespacedName, ok bool) {
	n, ok := a.offset(address)
	if !ok {
		return pod, false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.owners.owner(n)
}

// offset returns the offset of an address in the network.
func (a *addresses) offset(address string) (n uint32, ok bool) {
	addr, err := netip.ParseAddr(address)
	if err != nil || !a.network.Contains(addr) {
		return 0, false
	}
	bytes := addr.As4()
	return binary.BigEndian.Uint32(bytes[:]) - a.first, true
}

func (a *addresses) isAllocated(n uint32) bool {
	_, ok := a.owners.owner(n)
	return ok
}

// allocate returns the address of a pod, and allocates one if necessary. It returns "" if no address is free. The pod
// then waits until release returns it.
func (a *addresses) allocate(pod types.NamespacedName) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.returned, pod)
	n, ok := a.owners.address(pod)
	if !ok {
		if n, ok = a.nextFree(); !ok {
			a.waiting.add(pod)
			return ""
		}
		a.owners.add(pod, n)
	}
	a.waiting.remove(pod)
	var bytes [4]byte
	binary.BigEndian.PutUint32(bytes[:], a.first+n)
	return netip.AddrFrom4(bytes).String()
}

// nextFree returns a free address: an address that was never allocated, or the address that was released first.
func (a *addresses) nextFree() (uint32, bool) {
	for a.next < a.size && a.isAllocated(a.next) {
		a.next++
	}
	switch {
	case a.next < a.size && a.released.Len() <= maxReleased:
		a.next++
		return a.next - 1, true
	default:
		return a.released.ReadOne()
	}
}

// release frees the address of a pod. If a pod waits, and an address is free for it, release returns the waiting pod,
// which must call allocate again, or release if it is deleted. A pod without an address may be released.
func (a *addresses) release(pod types.NamespacedName) (again types.NamespacedName, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.waiting.remove(pod)
	delete(a.returned, pod)
	if n, ok := a.owners.address(pod); ok {
		a.owners.remove(pod, n)
		if n < a.next {
			a.released.WriteOne(n)
		}
	}
	if a.owners.len+len(a.returned) >= int(a.size)-1 {
		return again, false
	}
	if again, ok = a.waiting.pop(); ok {
		a.returned[again] = struct{}{}
	}
	return again, ok
}

// waiting is a queue of the pods that wait for an address.
type waiting struct {
	order list.List // of types.NamespacedName
	at    map[types.NamespacedName]*list.Element
}

func (w *waiting) add(pod types.NamespacedName) {
	if w.at[pod] == nil {
		w.at[pod] = w.order.PushBack(pod)
	}
}

func (w *waiting) remove(pod types.NamespacedName) {
	if e := w.at[pod]; e != nil {
		w.order.Remove(e)
		delete(w.at, pod)
	}
}

func (w *waiting) pop() (pod types.NamespacedName, ok bool) {
	e := w.order.Front()
	if e == nil {
		return pod, false
	}
	pod = e.Value.(types.NamespacedName)
	w.remove(pod)
	return pod, true
}
