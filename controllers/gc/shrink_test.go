package gc

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"flyball.dev/internal/heaptest"
)

// TestShrink expects that a graph from which most nodes were removed takes little memory, and has
// the others.
func TestShrink(t *testing.T) {
	const nodes, left = 50_000, 10
	g := newGraph()
	uid := func(n int) types.UID { return types.UID(fmt.Sprint("uid-", n)) }
	heap := heaptest.New(t)
	for n := range nodes {
		g.update(&node{uid: uid(n), resourceVersion: "1"})
	}
	for n := left; n < nodes; n++ {
		g.remove(uid(n))
	}
	if size := heap.Held(); size > 1<<20 {
		t.Errorf("%d nodes take %d bytes", left, size)
	}
	for n := range nodes {
		if g.has(uid(n)) != (n < left) {
			t.Fatalf("node %d of %d is in the graph: %v", n, nodes, g.has(uid(n)))
		}
	}
}

// TestSize bounds the memory of an object in the graph, besides its name: a pod without an owner, and one of the pods of an owner.
func TestSize(t *testing.T) {
	const objects = 20_000
	owner := ref("owner")
	owner.UID = "01234567-89ab-cdef-0123-456789abcdef"
	for _, tc := range []struct {
		name   string
		owners []metav1.OwnerReference
		most   int64
	}{{"no owner", nil, 150}, {"an owner", []metav1.OwnerReference{owner}, 270}} {
		g := newGraph()
		heap := heaptest.New(t)
		for n := range uint32(objects) {
			key := id{}
			binary.BigEndian.PutUint32(key[:], n*2654435761)
			g.update(&node{uid: key.uuid(), kind: widgets, namespace: "ns", name: fmt.Sprintf("web-%08d", n), resourceVersion: "123456",
				ownerReferences: tc.owners})
		}
		size := heap.Held() / objects
		t.Logf("%s: %d bytes", tc.name, size)
		if size > tc.most {
			t.Errorf("%s: an object takes %d bytes, want at most %d", tc.name, size, tc.most)
		}
		runtime.KeepAlive(g)
	}
}
