package gc

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"flyball.dev/controllers/internal/inventory"
)

// Objects with owners of kinds that are never served come and go; what is kept of them must go too.
func TestParkedObjectsThatAreDeleted(t *testing.T) {
	for _, parkedLast := range []bool{false, true} {
		c := &collector{graph: newGraph(), parked: map[types.UID]struct{}{}}
		r := inventory.Resource{Kind: widgets}
		obj := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: "x", UID: "x", OwnerReferences: []metav1.OwnerReference{ref("a")},
		}}
		c.OnUpdate(r, obj)
		if c.park("x", c.epoch); len(c.parked) != 1 {
			t.Fatal("an object that exists is not parked")
		}
		if parkedLast {
			clear(c.parked)
		}
		c.OnDelete(r, obj)
		if parkedLast {
			c.park("x", c.epoch) // by a worker that began before
		}
		if len(c.parked) != 0 {
			t.Errorf("parked last %v: a deleted object is still parked", parkedLast)
		}
	}
}
