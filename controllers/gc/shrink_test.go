package gc

import (
	"fmt"
	"runtime"
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

// TestShrink expects that a graph from which most nodes were removed takes little memory, and has
// the others.
func TestShrink(t *testing.T) {
	heap := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	const nodes, left = 50_000, 10
	g := newGraph()
	uid := func(n int) types.UID { return types.UID(fmt.Sprint("uid-", n)) }
	before := heap()
	for n := range nodes {
		g.update(&node{uid: uid(n), resourceVersion: "1"})
	}
	for n := left; n < nodes; n++ {
		g.remove(uid(n))
	}
	if size := heap() - before; size > 1<<20 {
		t.Errorf("%d nodes take %d bytes", left, size)
	}
	for n := range nodes {
		if g.has(uid(n)) != (n < left) {
			t.Fatalf("node %d of %d is in the graph: %v", n, nodes, g.has(uid(n)))
		}
	}
}
