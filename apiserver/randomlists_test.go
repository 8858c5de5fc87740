package apiserver_test

import (
	"flag"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apiserver/pkg/features"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	featuregatetesting "k8s.io/component-base/featuregate/testing"

	"flyball.dev/apiserver/endpoints/endpointstest"
	"flyball.dev/apiserver/listtest"
	"flyball.dev/internal/testlevel"
	"flyball.dev/storage"
	"flyball.dev/storage/datadir"
	"flyball.dev/storage/memory"
)

var firstSeed = flag.Uint64("seed", 1, "the first seed of TestRandomLists")

// TestRandomLists compares random lists on the fast path with the handler of k8s.io/apiserver, byte for byte, and CBOR by value; every
// other time of encrypted objects, and every third time with servers that know CBOR.
//
//	go test ./apiserver -run TestRandomLists -seed 7
func TestRandomLists(t *testing.T) {
	testRandomLists(t, 4, 20, func(*testing.T) storage.Store { return memory.New(memory.Options{CompressAfter: 10 * time.Second}) })
}

// TestRandomListsOfDirectory is TestRandomLists on a data directory.
func TestRandomListsOfDirectory(t *testing.T) {
	testlevel.NeedsFull(t, "TestRandomLists compares the same lists in memory")
	testRandomLists(t, 0, 20, func(t *testing.T) storage.Store {
		s, err := datadir.Open(t.TempDir(), datadir.Options{Memory: memory.Options{CompressAfter: 10 * time.Second}, SnapshotAfter: 1 << 20, Logf: t.Logf})
		if err != nil {
			t.Fatal(err)
		}
		return s
	})
}

// testRandomLists compares 500 lists with each of the seeds, 150 at the quick level.
func testRandomLists(t *testing.T, quick, full int, open func(*testing.T) storage.Store) {
	lists := testlevel.Rounds(150, 500)
	paths := endpointstest.Count(t, "", "list", "watch")
	listtest.Seeds(t, *firstSeed, testlevel.Rounds(quick, full), func(t *testing.T, seed uint64) {
		synctest.Test(t, func(t *testing.T) {
			featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, features.CBORServingAndStorage, seed%3 == 0)
			o := listtest.Options{Storage: open(t), Bubble: true}
			defer o.Storage.Close()
			if seed%2 == 0 {
				o.Transformers = listtest.Flipping{}
			}
			listtest.Compare(t, seed, lists, o)
		})
	})
	ours := paths()
	t.Log(ours)
	if fast := ours[endpointstest.Fast]; fast < ours.Sum()/6 { // half of the requests are to the reference server
		t.Errorf("the lists took the paths %v", ours)
	}
}
