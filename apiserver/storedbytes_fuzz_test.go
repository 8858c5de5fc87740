package apiserver_test

import (
	"bytes"
	"context"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	"flyball.dev/apiserver/authn"
	"flyball.dev/apiserver/listtest"
	"flyball.dev/storage"
)

// storedKeys are the keys of the values that FuzzStoredBytes damages, with the paths of their lists.
var storedKeys = []struct{ key, path string }{
	{"/registry/pods/default/x", "/api/v1/pods"},
	{"/registry/configmaps/default/x", mapsPath},
	{"/registry/deployments/default/x", "/apis/apps/v1/deployments"},
	{"/registry/example.com/widgets/default/x", customPath},
}

// FuzzStoredBytes checks that a stored value that is damaged makes lists and watches fail with an error that names the key, unless it can
// be decoded, and then in the same way on both paths. No value makes the server panic.
func FuzzStoredBytes(f *testing.F) {
	l := &listed{fuzzed: &fuzzed{tb: f}}
	l.fuzzed.start()
	f.Cleanup(l.stop)
	l.upstream = l.start(true)
	f.Cleanup(func() { l.upstream.Stop() })
	random := rand.New(rand.NewPCG(1, 1))
	for i, k := range storedKeys {
		r, err := l.storage.Get(f.Context(), k.key)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(i, r.Value())
		for range 40 {
			f.Add(i, damaged(random, r.Value()))
		}
	}
	f.Fuzz(func(t *testing.T, i int, value []byte) {
		k := storedKeys[uint(i)%uint(len(storedKeys))]
		if _, err := l.storage.Put(t.Context(), storage.Write{Key: k.key, Value: value, If: storage.Any}); err != nil {
			t.Fatal(err)
		}
		for _, accept := range []string{jsonType, protobufType + "," + jsonType, "application/yaml", asTable, jsonType + metadataList, protobufType + metadataList} { // custom resources have no protobuf
			for _, query := range []string{"", "limit=1", "labelSelector=a%3Db", "fieldSelector=metadata.name%3Dx"} {
				r := listtest.Request{Path: k.path, Query: query, Accept: accept, Encoding: "identity"}
				ours, theirs := r.Send(t, l.server), r.Send(t, l.upstream)
				if failed(theirs) {
					requireKey(t, r, k.key, ours)
				} else if ours.Code != http.StatusOK || !bytes.Equal(ours.Body.Bytes(), theirs.Body.Bytes()) {
					t.Errorf("%v: %d %q\nwant %q", r, ours.Code, ours.Body, theirs.Body)
				}
			}
		}
		for _, accept := range []string{jsonType, protobufType} {
			r := listtest.Request{Path: k.path, Query: watchList, Accept: accept}
			if w := l.watchInitial(t, r); strings.Contains(w.Body.String(), "ERROR") && !strings.Contains(string(value), "ERROR") {
				requireKey(t, r, k.key, w)
			}
		}
		r := listtest.Request{Path: "/api/v1/pods", Query: "fieldSelector=spec.nodeName%3Dn", Accept: protobufType}
		if w := r.Send(t, l.server); failed(w) {
			requireKey(t, r, k.key, w)
		}
	})
}

// failed reports whether a response is an error. The handler of k8s.io/apiserver finds out after the beginning of a list that an object
// cannot be encoded as JSON.
func failed(w *httptest.ResponseRecorder) bool {
	return w.Code != http.StatusOK || bytes.Contains(w.Body.Bytes(), []byte(`"status":"Failure"`))
}

// requireKey fails the test unless a response is an error that names a key, or says that an object cannot be encoded.
func requireKey(t *testing.T, r listtest.Request, key string, w *httptest.ResponseRecorder) {
	t.Helper()
	if text := w.Body.String(); !strings.Contains(text, key) && !strings.Contains(text, "MarshalJSON") && !strings.Contains(text, "yaml: ") {
		t.Errorf("%v: %d %q", r, w.Code, text)
	}
}

// watchInitial watches until the initial events have ended, or an event is an error.
func (l *listed) watchInitial(t *testing.T, r listtest.Request) *httptest.ResponseRecorder {
	ctx, cancel := context.WithCancel(authn.WithUser(t.Context(), &user.DefaultInfo{Name: "reader", Groups: []string{user.SystemPrivilegedGroup}}))
	defer cancel()
	request := httptest.NewRequestWithContext(ctx, http.MethodGet, r.Path+"?"+r.Query, nil)
	request.Header.Set("Accept", r.Accept)
	w := &untilEvents{httptest.NewRecorder(), cancel}
	l.server.ServeHTTP(w, request)
	return w.ResponseRecorder
}

// untilEvents is a response that ends a watch after the initial events, and after an error.
type untilEvents struct {
	*httptest.ResponseRecorder
	cancel func()
}

// Write implements [http.ResponseWriter].
func (w *untilEvents) Write(text []byte) (int, error) {
	n, err := w.ResponseRecorder.Write(text)
	if bytes.Contains(w.Body.Bytes(), []byte(metav1.InitialEventsAnnotationKey)) || bytes.Contains(w.Body.Bytes(), []byte("ERROR")) {
		w.cancel()
	}
	return n, err
}

// damaged returns a value with some bytes changed, removed or repeated.
func damaged(random *rand.Rand, value []byte) []byte {
	value = slices.Clone(value)
	for range 1 + random.IntN(3) {
		from := random.IntN(len(value))
		to := min(len(value), from+1+random.IntN(8))
		switch random.IntN(5) {
		case 0:
			value[from] ^= 1 << random.IntN(8)
		case 1:
			value[from] = byte(random.IntN(256))
		case 2:
			value = slices.Delete(value, from, to)
		case 3:
			value = slices.Insert(value, from, value[from:to]...)
		default:
			value = value[:max(1, from)]
		}
	}
	return value
}

// TestUnencodable: if an object can be decoded, but not be encoded as JSON, the error of a list names the object.
func TestUnencodable(t *testing.T) {
	l := newListed(t, 0)
	for _, name := range []string{"x", "y"} {
		if w := l.send(http.MethodPost, mapsPath, "", "application/json", "", `{"metadata":{"name":"`+name+`"},"data":{"a":"b"}}`); w.Code != http.StatusCreated {
			t.Fatal(w.Code, w.Body)
		}
	}
	r, err := l.storage.Get(t.Context(), "/registry/configmaps/default/y")
	if err != nil {
		t.Fatal(err)
	}
	value := bytes.Replace(r.Value(), []byte(`{"f:data"`), []byte(`{xf:data"`), 1)
	if _, err := l.storage.Put(t.Context(), storage.Write{Key: r.Key, Value: value, If: storage.Any}); err != nil || bytes.Equal(value, r.Value()) {
		t.Fatal(err)
	}
	for _, accept := range []string{jsonType, asTable, jsonType + metadataList} {
		w := l.get(l.server, mapsPath, "", accept, "identity")
		if w.Code != http.StatusInternalServerError || !strings.Contains(w.Body.String(), "default/y: json: ") {
			t.Errorf("%s: %d %s", accept, w.Code, w.Body)
		}
	}
}
