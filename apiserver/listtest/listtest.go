// Package listtest compares random lists of two servers on one storage, byte for byte, and CBOR by value: the server, which copies and
// transcodes stored bytes, and the reference server, which decodes, filters and encodes with the handlers of k8s.io/apiserver, and has no
// indexes. Between the lists, objects are written and deleted, by the servers and by others, the history is compacted, and servers are
// replaced.
//
//upstream:none It compares our two paths.
package listtest

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apiserver/pkg/storage/value"

	"flyball.dev/apiserver"
	"flyball.dev/apiserver/admission"
	"flyball.dev/apiserver/authn"
	"flyball.dev/storage"
)

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

// Seeds calls compare with n seeds, from first on, each in a subtest.
func Seeds(t *testing.T, first uint64, n int, compare func(t *testing.T, seed uint64)) {
	t.Helper()
	for i := range uint64(n) {
		seed := first + i
		t.Run(fmt.Sprint(seed), func(t *testing.T) { compare(t, seed) })
	}
}

// Compare compares n lists. The seed determines the objects and the requests. Compare fails the test at the first list with different
// responses, and if few lists have objects.
func Compare(t testing.TB, seed uint64, n int, o Options) {
	t.Helper()
	w := &world{tb: t, Options: o, Rand: rand.New(rand.NewPCG(seed, 0))}
	w.server = w.start(false)
	defer func() { w.server.Stop() }()
	w.create()
	w.reference = w.start(true) // and not before, for it would not follow the definition
	defer func() { w.reference.Stop() }()
	for range 150 {
		w.write()
	}
	full := 0
	for i := range n {
		w.change()
		r := w.request()
		response, difference := w.compare(r)
		if difference != "" {
			t.Fatalf("list %d of seed %d, %v: %s", i, seed, r, difference)
		}
		if response.Code == http.StatusOK && response.Body.Len() > 1000 {
			full++
		}
		w.remember(r, response)
	}
	if full < n/4 {
		t.Errorf("only %d of %d lists of seed %d have objects", full, n, seed)
	}
}

// world is the state of a comparison.
type world struct {
	Options
	*rand.Rand
	tb                testing.TB
	server, reference *apiserver.Server
	versions          []string  // of lists
	next              []Request // for the next pages of lists
}

// start starts the server, or the reference server.
func (w *world) start(reference bool) *apiserver.Server {
	w.tb.Helper()
	o := apiserver.Options{Storage: w.Storage, Authentication: authn.Config{}, Transformers: w.Transformers, WithoutFastPath: reference,
		Admission: admission.Options{Disable: []string{admission.ServiceAccount, "MutatingAdmissionWebhook", "ValidatingAdmissionWebhook"}}}
	if reference {
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

// compare compares the responses to a request. It sends the request again if others wrote meanwhile, or if they may have got another
// age of an object, outside of a bubble.
func (w *world) compare(r Request) (response *httptest.ResponseRecorder, difference string) {
	w.tb.Helper()
	for ages := 0; ; {
		before := w.state()
		response, difference = r.Compare(w.tb, w.server, w.reference)
		switch {
		case difference == "":
			return response, ""
		case w.state() != before:
		case !w.Bubble && strings.Contains(r.Accept, "Table") && ages < 3:
			ages++
		default:
			return response, difference
		}
	}
}

// state returns the latest revisions of the storage and of its replica.
func (w *world) state() (state [2]uint64) {
	w.tb.Helper()
	for i, reader := range []storage.Reader{w.Storage, storage.Replica(w.Storage)} {
		var err error
		if state[i], _, err = reader.Revisions(w.tb.Context()); err != nil {
			w.tb.Fatal(err)
		}
	}
	return state
}

// change changes the world as others do between two lists.
func (w *world) change() {
	w.tb.Helper()
	for range w.IntN(3) {
		w.write()
	}
	switch n := w.IntN(200); {
	case n == 0:
		w.server.Stop()
		w.server = w.start(false)
	case n == 1:
		w.reference.Stop()
		w.reference = w.start(true)
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
