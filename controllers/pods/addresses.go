package pods

import (
	"encoding/binary"
	"net/netip"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// quarantine is how many released addresses wait before the first of them is given again while there are
// others that were never given.
const quarantine = 1 << 12

// addresses is an allocator that gives each pod an address of its own from one IPv4 network. Whatever it
// is asked takes constant time, amortized, however many addresses are taken. Its methods may be called
// from several goroutines.
//
// Addresses are counted from that of the network itself, which is never given.
type addresses struct {
	network netip.Prefix
	first   uint32
	size    uint32

	mu       sync.Mutex
	of       map[types.NamespacedName]uint32
	taken    bitmap
	next     uint32 // none from here on was ever given, but some may have been kept
	released fifo[uint32]
	waiting  waiting
}

func newAddresses(network netip.Prefix) *addresses {
	network = network.Masked()
	first := network.Addr().As4()
	return &addresses{
		network: network,
		first:   binary.BigEndian.Uint32(first[:]),
		size:    1<<(32-max(network.Bits(), 1)) - 1, // without the last one, the broadcast address
		of:      map[types.NamespacedName]uint32{},
		next:    1,
		waiting: waiting{there: map[types.NamespacedName]struct{}{}},
	}
}

// keep takes note of an address that a pod has already. Of two pods with the same address one keeps it;
// the other is given another.
func (a *addresses) keep(pod types.NamespacedName, address string) {
	addr, err := netip.ParseAddr(address)
	if err != nil || !a.network.Contains(addr) {
		return
	}
	bytes := addr.As4()
	n := binary.BigEndian.Uint32(bytes[:]) - a.first
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, ok := a.of[pod]; !ok && n > 0 && n < a.size && !a.taken.has(n) {
		a.take(pod, n)
	}
}

// give returns the address of a pod, a free one if it has none. It returns "" if none is free; free then
// returns the pod when it is to try again.
func (a *addresses) give(pod types.NamespacedName) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	n, ok := a.of[pod]
	if !ok {
		if n, ok = a.free(); !ok {
			a.waiting.add(pod)
			return ""
		}
		a.take(pod, n)
	}
	a.waiting.remove(pod)
	var bytes [4]byte
	binary.BigEndian.PutUint32(bytes[:], a.first+n)
	return netip.AddrFrom4(bytes).String()
}

// free finds a free address: one that was released long ago, or else one that was never given.
func (a *addresses) free() (uint32, bool) {
	for a.next < a.size && a.taken.has(a.next) {
		a.next++
	}
	switch {
	case a.released.len() > quarantine || a.next >= a.size && a.released.len() > 0:
		return a.released.pop(), true
	case a.next < a.size:
		a.next++
		return a.next - 1, true
	}
	return 0, false
}

func (a *addresses) take(pod types.NamespacedName, n uint32) {
	a.of[pod] = n
	a.taken.set(n)
}

// release takes the address of a pod that needs none any more. It returns a pod that may now try again,
// if there is one.
func (a *addresses) release(pod types.NamespacedName) (again types.NamespacedName, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.waiting.remove(pod)
	if n, ok := a.of[pod]; ok {
		delete(a.of, pod)
		a.taken.unset(n)
		if n < a.next {
			a.released.push(n)
		}
	}
	if uint32(len(a.of)) >= a.size-1 {
		return again, false
	}
	return a.waiting.pop()
}

// waiting are the pods that wait for an address, in order.
type waiting struct {
	there map[types.NamespacedName]struct{}
	order fifo[types.NamespacedName] // has those that wait, and some that no longer do
}

func (w *waiting) add(pod types.NamespacedName) {
	if _, ok := w.there[pod]; !ok {
		w.there[pod] = struct{}{}
		w.order.push(pod)
	}
}

func (w *waiting) remove(pod types.NamespacedName) { delete(w.there, pod) }

func (w *waiting) pop() (pod types.NamespacedName, ok bool) {
	for w.order.len() > 0 && !ok {
		pod = w.order.pop()
		_, ok = w.there[pod]
	}
	delete(w.there, pod)
	return pod, ok
}

// bitmap is a set of small numbers.
type bitmap []uint64

func (b bitmap) has(n uint32) bool { return int(n/64) < len(b) && b[n/64]&(1<<(n%64)) != 0 }

func (b *bitmap) set(n uint32) {
	if missing := int(n/64) + 1 - len(*b); missing > 0 {
		*b = append(*b, make([]uint64, missing)...)
	}
	(*b)[n/64] |= 1 << (n % 64)
}

func (b bitmap) unset(n uint32) { b[n/64] &^= 1 << (n % 64) }

// fifo is a first-in-first-out queue. What is popped makes room before the queue grows.
type fifo[T any] struct {
	items []T
	head  int
}

func (f *fifo[T]) len() int { return len(f.items) - f.head }

func (f *fifo[T]) push(item T) {
	if f.head > 0 && len(f.items) == cap(f.items) && f.head >= len(f.items)/2 {
		rest := copy(f.items, f.items[f.head:])
		clear(f.items[rest:])
		f.items, f.head = f.items[:rest], 0
	}
	f.items = append(f.items, item)
}

func (f *fifo[T]) pop() T {
	var none T
	item := f.items[f.head]
	f.items[f.head] = none
	f.head++
	return item
}
