package pods

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

// TestOwners compares owners with two maps, also if all pods have one of two hashes.
func TestOwners(t *testing.T) {
	for _, collide := range []bool{false, true} {
		o := newOwners()
		if collide {
			o.hash = func(pod types.NamespacedName) uint64 { return uint64(len(pod.Name) % 2) }
		}
		random := rand.New(rand.NewPCG(1, 2))
		of, by := map[types.NamespacedName]uint32{}, map[uint32]types.NamespacedName{}
		for range 20_000 {
			pod := types.NamespacedName{Namespace: fmt.Sprint("ns-", random.IntN(3)), Name: fmt.Sprint("pod-", random.IntN(120))}
			address := uint32(random.IntN(200) * random.IntN(3))
			had, has := of[pod]
			if got, ok := o.address(pod); got != had && ok || ok != has {
				t.Fatalf("%v has %d, %v, want %d, %v", pod, got, ok, had, has)
			}
			owner, taken := by[address]
			if got, ok := o.owner(address); got != owner || ok != taken {
				t.Fatalf("%d belongs to %v, %v, want %v, %v", address, got, ok, owner, taken)
			}
			switch {
			case has:
				o.remove(pod, had)
				delete(of, pod)
				delete(by, had)
			case !taken:
				o.add(pod, address)
				of[pod], by[address] = address, pod
			}
			if o.len != len(of) {
				t.Fatalf("there are %d, want %d", o.len, len(of))
			}
		}
		for pod, address := range maps.Clone(of) {
			o.remove(pod, address)
		}
		if o.len != 0 || len(o.pages) != 0 || len(o.addresses) != 0 || len(o.others) != 0 {
			t.Errorf("in the end, there are %d owners, %d pages, %d and %d addresses", o.len, len(o.pages), len(o.addresses), len(o.others))
		}
	}
}
