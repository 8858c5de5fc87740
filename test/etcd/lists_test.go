package etcd

import (
	"flag"
	"testing"

	"flyball.dev/apiserver/listtest"
	"flyball.dev/internal/testlevel"
	"flyball.dev/storage/etcd"
)

var firstSeed = flag.Uint64("seed", 1, "the first seed of TestRandomLists")

// TestRandomLists compares random lists of a server with the lists of one without the fast path, both on one cluster; every other time, of
// encrypted objects.
func TestRandomLists(t *testing.T) {
	testlevel.NeedsFull(t, "TestRandomLists of the API server compares the same lists in memory")
	listtest.Seeds(t, *firstSeed, 20, func(t *testing.T, seed uint64) {
		o := listtest.Options{Storage: open(t, startCluster(t, 1), etcd.Options{})}
		defer o.Storage.Close()
		if seed%2 == 0 {
			o.Transformers = listtest.Flipping{}
		}
		listtest.Compare(t, seed, 500, o)
	})
}
