package pods

import (
	"container/list"
	"encoding/binary"
	"net/netip"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/buffer"
)

// maxReleased is the number of released addresses above which the oldest is reused, while there are addresses that were
// never allocated. It makes it unlikely that a client with the address of a deleted pod reaches another pod.
const maxReleased = 1 << 12

// addresses allocates an IPv4 address to each pod, in amortized constant time: an address of the CIDR of its node, or one of the
// network if the CIDR has none left. No two pods have the same address, even if CIDRs overlap. Its methods may be called from several
// goroutines at once.
type addresses struct {
	network netip.Prefix

	mu       sync.Mutex
	owners   owners
	all      *addressRange                  // the network
	cidrs    map[netip.Prefix]*addressRange // of nodes
	lengths  []int                          // the lengths of cidrs
	waiting  waiting
	returned map[types.NamespacedName]struct{} // pods that release has returned, without an address yet
}

// addressRange are the addresses of a network. The first one is never allocated, and neither is the last one, the broadcast address.
type addressRange struct {
	first, last uint32
	next        uint32 // only occupy, and overlapping ranges, have allocated addresses from here on
	used        int    // the number of allocated addresses; only for the whole network
	released    buffer.TypedRingGrowing[uint32]
}

func newAddressRange(network netip.Prefix) *addressRange {
	first := toNumber(network.Masked().Addr())
	return &addressRange{first: first, last: first + 1<<(32-max(network.Bits(), 1)) - 1, next: first + 1}
}

// contains reports whether an address can be allocated from the range.
func (r *addressRange) contains(n uint32) bool { return r.first < n && n < r.last }

// newAddresses returns an allocator for a network. All addresses are free.
func newAddresses(network netip.Prefix) *addresses {
	network = network.Masked()
	return &addresses{
		network: network,
		owners:  newOwners(),
		all:     newAddressRange(network),
		cidrs:   map[netip.Prefix]*addressRange{},
		waiting: waiting{at: map[types.NamespacedName]*list.Element{}},

		returned: map[types.NamespacedName]struct{}{},
	}
}

// toNumber returns an IPv4 address as a number.
func toNumber(address netip.Addr) uint32 {
	bytes := address.As4()
	return binary.BigEndian.Uint32(bytes[:])
}

// parse returns an IPv4 address as a number.
func parse(address string) (n uint32, ok bool) {
	addr, err := netip.ParseAddr(address)
	if err != nil || !addr.Is4() {
		return 0, false
	}
	return toNumber(addr), true
}

// occupy allocates an address to a pod that has the address already, if the address is in the network or in the CIDR of its node, which
// may be the zero Prefix. If two pods have the same address, the first pod keeps it, and allocate returns another address for the second.
func (a *addresses) occupy(pod types.NamespacedName, address string, cidr netip.Prefix) {
	n, ok := parse(address)
	if !ok {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.all.contains(n) && (!cidr.IsValid() || !a.rangeOf(cidr).contains(n)) {
		return
	}
	if _, ok := a.owners.address(pod); !ok && !a.isAllocated(n) {
		a.add(pod, n)
	}
}

// owner returns the pod that an address is allocated to.
func (a *addresses) owner(address string) (pod types.NamespacedName, ok bool) {
	n, ok := parse(address)
	if !ok {
		return pod, false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.owners.owner(n)
}

func (a *addresses) isAllocated(n uint32) bool {
	_, ok := a.owners.owner(n)
	return ok
}

// add makes a pod the owner of an address.
func (a *addresses) add(pod types.NamespacedName, n uint32) {
	a.owners.add(pod, n)
	if a.all.contains(n) {
		a.all.used++
	}
}

// allocate returns the address of a pod, and allocates one if necessary, from the CIDR of its node unless that is the zero Prefix. It
// returns "" if no address is free. The pod then waits until release returns it.
func (a *addresses) allocate(pod types.NamespacedName, cidr netip.Prefix) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.returned, pod)
	n, ok := a.owners.address(pod)
	if !ok {
		if cidr.IsValid() {
			n, ok = a.nextFree(a.rangeOf(cidr))
		}
		if !ok {
			n, ok = a.nextFree(a.all)
		}
		if !ok {
			a.waiting.add(pod)
			return ""
		}
		a.add(pod, n)
	}
	a.waiting.remove(pod)
	var bytes [4]byte
	binary.BigEndian.PutUint32(bytes[:], n)
	return netip.AddrFrom4(bytes).String()
}

// nextFree returns a free address of a range: an address that was never allocated, or the address that was released first.
func (a *addresses) nextFree(r *addressRange) (uint32, bool) {
	for r.next < r.last && a.isAllocated(r.next) {
		r.next++
	}
	if r.next < r.last && r.released.Len() <= maxReleased {
		r.next++
		return r.next - 1, true
	}
	for {
		if n, ok := r.released.ReadOne(); !ok || !a.isAllocated(n) {
			return n, ok
		}
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
		a.remove(pod, n)
	}
	if a.all.used+len(a.returned) >= int(a.all.last-a.all.first)-1 {
		return again, false
	}
	if again, ok = a.waiting.pop(); ok {
		a.returned[again] = struct{}{}
	}
	return again, ok
}

// remove frees an address of a pod.
func (a *addresses) remove(pod types.NamespacedName, n uint32) {
	a.owners.remove(pod, n)
	if a.all.contains(n) {
		a.all.used--
	}
	if r := a.rangeWith(n); r.contains(n) && n < r.next {
		r.released.WriteOne(n)
	}
}

// rangeWith returns the range of the CIDR with an address, or the whole network.
func (a *addresses) rangeWith(n uint32) *addressRange {
	var bytes [4]byte
	binary.BigEndian.PutUint32(bytes[:], n)
	for _, length := range a.lengths {
		if r := a.cidrs[netip.PrefixFrom(netip.AddrFrom4(bytes), length).Masked()]; r != nil {
			return r
		}
	}
	return a.all
}

// rangeOf returns the range of the CIDR of a node.
func (a *addresses) rangeOf(cidr netip.Prefix) *addressRange {
	r := a.cidrs[cidr]
	if r == nil {
		r = newAddressRange(cidr)
		a.cidrs[cidr] = r
		if !slices.Contains(a.lengths, cidr.Bits()) {
			a.lengths = append(a.lengths, cidr.Bits())
		}
	}
	return r
}

// forget forgets the released addresses of the CIDR of a node that is gone. Its pods keep their addresses.
func (a *addresses) forget(cidr netip.Prefix) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.cidrs, cidr)
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
