// Package listtest compares random lists of two servers on one storage, byte for byte: the clever server, which copies and transcodes
// stored bytes, and the dumb one, which decodes, filters and encodes with the handlers of k8s.io/apiserver, and has no indexes. Between
// the lists, objects are written and deleted, by the servers and by others, the history is compacted, and servers are replaced.
//
//	go test ./apiserver -run TestRandomLists -seed 7
//
//upstream:none It compares our two paths.
package listtest

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apiserver/pkg/storage/value"

	"flyball.dev/apiserver"
	"flyball.dev/apiserver/admission"
	"flyball.dev/apiserver/authn"
	"flyball.dev/storage"
)

var first = flag.Uint64("seed", 1, "the seed of the first random comparison of lists")

// Options configure a comparison.
type Options struct {
	// Storage keeps the objects of both servers. The caller closes it.
	Storage storage.Store
	// Transformers, if not nil, encrypt the objects.
	Transformers value.ResourceTransformers
	// Bubble says that the test runs in a bubble of testing/synctest. Then time passes between the lists, so that objects become idle,
	// some lists wait for the future, and some are watches that begin with the objects.
	Bubble bool
}

// Seeds calls compare with n seeds, from the flag -seed on, each in a subtest.
func Seeds(t *testing.T, n int, compare func(t *testing.T, seed uint64)) {
	t.Helper()
	for i := range uint64(n) {
		seed := *first + i
		t.Run(fmt.Sprint(seed), func(t *testing.T) { compare(t, seed) })
	}
}

// Compare compares n lists. The seed determines the objects and the requests. Compare fails the test at the first list with different
// responses, and if few lists have objects.
func Compare(t testing.TB, seed uint64, n int, o Options) {
	t.Helper()
	w := &world{tb: t, Options: o, Rand: rand.New(rand.NewPCG(seed, 0))}
	w.clever = w.start(false)
	defer func() { w.clever.Stop() }()
	w.create()
	w.dumb = w.start(true) // and not before, for it would not follow the definition
	defer func() { w.dumb.Stop() }()
	for range 150 {
		w.write()
	}
	full := 0
	for i := range n {
		w.change()
		r := w.request()
		response, difference := w.compare(r)
		if difference != "" {
			t.Fatalf("list %d with -seed %d, %v: %s", i, seed, r, difference)
		}
		if response.Code == http.StatusOK && response.Body.Len() > 1000 {
			full++
		}
		w.remember(r, response)
	}
	if full < n/4 {
		t.Errorf("only %d of %d lists with -seed %d have objects", full, n, seed)
	}
}

// world is the state of a comparison.
type world struct {
	Options
	*rand.Rand
	tb           testing.TB
	clever, dumb *apiserver.Server
	versions     []string  // of lists
	next         []Request // for the next pages of lists
}

// start starts a server.
func (w *world) start(dumb bool) *apiserver.Server {
	w.tb.Helper()
	o := apiserver.Options{Storage: w.Storage, Authentication: authn.Config{}, Transformers: w.Transformers, WithoutFastPath: dumb,
		Admission: admission.Options{Disable: []string{admission.ServiceAccount, "MutatingAdmissionWebhook", "ValidatingAdmissionWebhook"}}}
	if dumb {
		o.Storage = unindexed{w.Storage}
	}
	s, err := apiserver.New(o)
	if err != nil {
		w.tb.Fatal(err)
	}
	return s
}

// unindexed is a store without indexes.
type unindexed struct{ storage.Store }

// Replica implements [storage.Replicated].
func (u unindexed) Replica() storage.Reader { return storage.Replica(u.Store) }

// change changes the world as others do between two lists.
func (w *world) change() {
	w.tb.Helper()
	for range w.IntN(3) {
		w.write()
	}
	switch n := w.IntN(200); {
	case n == 0:
		w.clever.Stop()
		w.clever = w.start(false)
	case n == 1:
		w.dumb.Stop()
		w.dumb = w.start(true)
	case n == 2:
		latest, oldest := w.revisions()
		if err := w.Storage.Compact(w.tb.Context(), oldest+w.Uint64N(latest-oldest+1)); err != nil {
			w.tb.Fatal(err)
		}
	case n < 13 && w.Bubble:
		time.Sleep(time.Duration(w.IntN(60)) * time.Second)
		synctest.Wait()
	}
}

// revisions returns the latest and the oldest revision of the storage.
func (w *world) revisions() (latest, oldest uint64) {
	w.tb.Helper()
	latest, oldest, err := w.Storage.Revisions(w.tb.Context())
	if err != nil {
		w.tb.Fatal(err)
	}
	return latest, oldest
}

// chance reports true in percent of the calls.
func (w *world) chance(percent int) bool { return w.IntN(100) < percent }

// pick returns one of the values.
func pick[T any](w *world, values ...T) T { return values[w.IntN(len(values))] }
