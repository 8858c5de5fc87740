package loadbalancer

import (
	"fmt"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

// TestFullNetwork: an owner that found no free address is told when one is freed.
func TestFullNetwork(t *testing.T) {
	var freed []string
	a := newAddresses(func(owner types.NamespacedName) { freed = append(freed, owner.Name) })
	key := func(i int) types.NamespacedName { return types.NamespacedName{Name: fmt.Sprint(i)} }
	n := 0
	for ; ; n++ {
		if _, err := a.allocate(key(n)); err != nil {
			break
		}
	}
	if n != 1<<16-2 { // without the address of the network, and the address of Ingresses
		t.Errorf("the network has %d addresses", n)
	}
	a.release(key(n)) // it waits no longer
	if _, err := a.allocate(key(n + 1)); err == nil {
		t.Error("an address was free")
	}
	if err := a.use(key(n+2), a.by[key(1)]); err == nil {
		t.Error("the address of another owner was free")
	}
	a.release(key(0))
	if want := []string{key(n + 1).Name}; !slices.Equal(freed, want) {
		t.Errorf("told %q, want %q", freed, want)
	}
	if _, err := a.allocate(key(n + 1)); err != nil {
		t.Error(err)
	}
}
