package gc

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"flyball.dev/controllers/internal/inventory"
)

// TestDeferredObjectsThatAreDeleted: nothing is kept of deleted objects with owners of kinds that
// are not served.
func TestDeferredObjectsThatAreDeleted(t *testing.T) {
	for _, deferredLast := range []bool{false, true} {
		c := &collector{graph: newGraph(), deferred: map[types.UID]struct{}{}}
		r := inventory.Resource{Kind: widgets}
		obj := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: "x", UID: "x", OwnerReferences: []metav1.OwnerReference{ref("a")},
		}}
		c.OnUpdate(r, obj)
		if c.deferUntilDiscovery("x", c.epoch); len(c.deferred) != 1 {
			t.Fatal("an object that exists is not deferred")
		}
		if deferredLast {
			clear(c.deferred)
		}
		c.OnDelete(r, obj)
		if deferredLast {
			c.deferUntilDiscovery("x", c.epoch) // by a worker that started before
		}
		if len(c.deferred) != 0 {
			t.Errorf("deferred last %v: a deleted object is still deferred", deferredLast)
		}
	}
}
