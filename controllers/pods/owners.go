package pods

import (
	"hash/maphash"

	"k8s.io/apimachinery/pkg/types"
)

// owners are the pods that have an address, by address and by pod. There may be very many, so each pod is there once: the
// index by pod has hashes.
type owners struct {
	len   int
	pages map[uint32]*ownerPage // by the address, divided by the size of a page
	hash  func(types.NamespacedName) uint64
	// addresses has an address for each hash, and others the addresses of pods with the hash of another pod.
	addresses map[uint64]uint32
	others    map[types.NamespacedName]uint32
}

// pageSize is the number of addresses of a page.
const pageSize = 16

// ownerPage has the owners of consecutive addresses; the empty name is no pod.
type ownerPage struct {
	len  int
	pods [pageSize]types.NamespacedName
}

func newOwners() owners {
	seed := maphash.MakeSeed()
	return owners{
		pages:     map[uint32]*ownerPage{},
		hash:      func(pod types.NamespacedName) uint64 { return maphash.Comparable(seed, pod) },
		addresses: map[uint64]uint32{}, others: map[types.NamespacedName]uint32{},
	}
}

// owner returns the pod with an address.
func (o *owners) owner(address uint32) (pod types.NamespacedName, ok bool) {
	if p := o.pages[address/pageSize]; p != nil {
		pod = p.pods[address%pageSize]
	}
	return pod, pod.Name != ""
}

// address returns the address of a pod.
func (o *owners) address(pod types.NamespacedName) (address uint32, ok bool) {
	if address, ok = o.addresses[o.hash(pod)]; ok {
		if owner, _ := o.owner(address); owner == pod {
			return address, true
		}
	}
	address, ok = o.others[pod]
	return address, ok
}

// add makes a pod without an address the owner of an address without an owner.
func (o *owners) add(pod types.NamespacedName, address uint32) {
	p := o.pages[address/pageSize]
	if p == nil {
		p = &ownerPage{}
		o.pages[address/pageSize] = p
	}
	p.pods[address%pageSize] = pod
	p.len++
	o.len++
	if hash := o.hash(pod); !o.has(hash) {
		o.addresses[hash] = address
	} else {
		o.others[pod] = address
	}
}

func (o *owners) has(hash uint64) bool {
	_, ok := o.addresses[hash]
	return ok
}

// remove removes a pod with its address.
func (o *owners) remove(pod types.NamespacedName, address uint32) {
	p := o.pages[address/pageSize]
	p.pods[address%pageSize] = types.NamespacedName{}
	o.len--
	if p.len--; p.len == 0 {
		delete(o.pages, address/pageSize)
	}
	if _, other := o.others[pod]; other {
		delete(o.others, pod)
	} else {
		delete(o.addresses, o.hash(pod))
	}
}
