package listtest

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/storage/value"

	"flyball.dev/apiserver/authn"
	"flyball.dev/storage"
)

// Request is a request for a list.
type Request struct{ Path, Query, Accept, Encoding string }

func (r Request) String() string {
	return fmt.Sprintf("%s?%s as %s %s", r.Path, r.Query, r.Accept, r.Encoding)
}

// Send sends the request to a server.
func (r Request) Send(t testing.TB, s http.Handler) *httptest.ResponseRecorder {
	t.Helper()
	request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, (&url.URL{Path: r.Path, RawQuery: r.Query}).String(), nil)
	request.Header.Set("Accept", r.Accept)
	request.Header.Set("Accept-Encoding", r.Encoding)
	return send(s, request)
}

// send sends a request of a user who may do everything.
func send(s http.Handler, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r.WithContext(authn.WithUser(r.Context(), &user.DefaultInfo{Name: "reader", Groups: []string{user.SystemPrivilegedGroup}})))
	return w
}

// Compare sends the request to two servers. It returns the response of the first one, and how the responses differ, or "".
func (r Request) Compare(t testing.TB, ours, theirs http.Handler) (got *httptest.ResponseRecorder, difference string) {
	t.Helper()
	var want *httptest.ResponseRecorder
	var pending sync.WaitGroup
	pending.Go(func() { got = r.Send(t, ours) })
	if !strings.HasPrefix(r.Query, "watch") { // which takes time, and the time is the default of some fields
		pending.Wait()
	}
	pending.Go(func() { want = r.Send(t, theirs) })
	pending.Wait()
	return got, differ(got, want)
}

// differ returns how two responses differ, or "".
func differ(got, want *httptest.ResponseRecorder) string {
	ours, err := body(got)
	theirs, theirErr := body(want)
	if fmt.Sprint(err) != fmt.Sprint(theirErr) { // as of a watch that has sent nothing
		return fmt.Sprintf("%v, want %v", err, theirErr)
	}
	if got.Code == want.Code && (bytes.Equal(ours, theirs) || equalCBOR(ours, theirs)) {
		for _, h := range []string{"Content-Type", "Content-Encoding", "Vary", "Warning"} {
			if got, want := got.Header()[h], want.Header()[h]; !slices.Equal(got, want) {
				return fmt.Sprintf("%s is %q, want %q", h, got, want)
			}
		}
		return ""
	}
	at := 0
	for at < min(len(ours), len(theirs)) && ours[at] == theirs[at] {
		at++
	}
	at = max(0, at-200)
	return fmt.Sprintf("%d, from byte %d\n%.3000q\nwant %d\n%.3000q", got.Code, at, ours[min(at, len(ours)):], want.Code, theirs[min(at, len(theirs)):])
}

// equalCBOR reports whether two documents in CBOR are equal but for the order of the keys, which encoders choose at random.
func equalCBOR(ours, theirs []byte) bool {
	var got, want any
	return bytes.HasPrefix(ours, cborPrefix) && direct.Unmarshal(ours, &got) == nil && direct.Unmarshal(theirs, &want) == nil && reflect.DeepEqual(got, want)
}

// cborPrefix is the tag that begins a document in CBOR.
var cborPrefix = []byte{0xd9, 0xd9, 0xf7}

// body returns the body of a response.
func body(w *httptest.ResponseRecorder) ([]byte, error) {
	if w.Header().Get("Content-Encoding") != "gzip" {
		return w.Body.Bytes(), nil
	}
	r, err := gzip.NewReader(bytes.NewReader(w.Body.Bytes()))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}

// Flipping is a transformer of all resources that flips bits.
type Flipping struct{}

// TransformerForResource implements [value.ResourceTransformers].
func (f Flipping) TransformerForResource(schema.GroupResource) value.Transformer { return f }

// TransformToStorage implements [value.Transformer].
func (Flipping) TransformToStorage(_ context.Context, data []byte, _ value.Context) ([]byte, error) {
	flipped := []byte(flippedPrefix)
	for _, b := range data {
		flipped = append(flipped, ^b)
	}
	return flipped, nil
}

// TransformFromStorage implements [value.Transformer].
func (f Flipping) TransformFromStorage(_ context.Context, data []byte, _ value.Context) ([]byte, bool, error) {
	flipped, ok := bytes.CutPrefix(data, []byte(flippedPrefix))
	if !ok {
		return nil, false, errors.New("it is not flipped")
	}
	data = make([]byte, len(flipped))
	for i, b := range flipped {
		data[i] = ^b
	}
	return data, false, nil
}

const flippedPrefix = "flipped "

// compare compares the responses to a request. It sends the request again if others wrote meanwhile, or if they may have got another
// age of an object, outside of a bubble.
func (w *world) compare(r Request) (response *httptest.ResponseRecorder, difference string) {
	w.tb.Helper()
	for ages := 0; ; {
		before := w.state()
		response, difference = r.Compare(w.tb, w.clever, w.dumb)
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

// remember keeps the resource version and the continue token of a list for later requests.
func (w *world) remember(r Request, response *httptest.ResponseRecorder) {
	var list struct {
		Metadata struct{ ResourceVersion, Continue string }
	}
	text, err := body(response)
	if err != nil || json.Unmarshal(text, &list) != nil {
		return
	}
	if version := list.Metadata.ResourceVersion; version != "" {
		w.versions = append(w.versions[max(0, len(w.versions)-20):], version)
	}
	if token := list.Metadata.Continue; token != "" {
		query, _ := url.ParseQuery(r.Query)
		query.Set("continue", token)
		query.Del("resourceVersion")
		query.Del("resourceVersionMatch")
		r.Query = query.Encode()
		w.next = append(w.next[max(0, len(w.next)-20):], r)
	}
}

const metadataList, table = ";as=PartialObjectMetadataList;g=meta.k8s.io;v=", ";as=Table;g=meta.k8s.io;v="

// accepts are the formats of lists, the frequent ones more than once.
var accepts = []string{
	"application/json", "application/json", "application/json", "application/json", "application/json", "*/*", "application/json;pretty=1",
	"application/vnd.kubernetes.protobuf", "application/vnd.kubernetes.protobuf", "application/vnd.kubernetes.protobuf",
	"application/vnd.kubernetes.protobuf", "application/vnd.kubernetes.protobuf", "application/json" + metadataList + "v1",
	"application/vnd.kubernetes.protobuf,application/json", "application/json;q=0.1,application/vnd.kubernetes.protobuf",
	"application/yaml", "application/cbor", "text/html",
	"application/json" + table + "v1", "application/json" + table + "v1", "application/json" + table + "v1beta1", "application/json" + table + "v1,application/json",
	"application/vnd.kubernetes.protobuf" + table + "v1", "application/yaml" + table + "v1", "application/cbor" + table + "v1",
	"application/json" + metadataList + "v1", "application/json" + metadataList + "v1beta1", "application/vnd.kubernetes.protobuf" + metadataList + "v1",
	"application/vnd.kubernetes.protobuf" + metadataList + "v1", "application/vnd.kubernetes.protobuf" + metadataList + "v1beta1",
	"application/yaml" + metadataList + "v1", "application/cbor" + metadataList + "v1",
	"application/vnd.kubernetes.protobuf" + metadataList + "v1,application/json" + metadataList + "v1",
}

// request returns a random request.
func (w *world) request() Request {
	accept, encoding := pick(w, accepts...), pick(w, "identity", "gzip")
	if len(w.next) > 0 && w.chance(20) {
		r := pick(w, w.next...)
		if w.chance(50) {
			r.Accept, r.Encoding = accept, encoding
		}
		return r
	}
	k := pick(w, kinds...)
	query := url.Values{}
	if w.chance(50) {
		query.Set("labelSelector", w.labelSelector())
	}
	if w.chance(30) {
		query.Set("fieldSelector", w.fieldSelector(k))
	}
	if strings.Contains(accept, "Table") && w.chance(50) {
		query.Set("includeObject", pick(w, "Object", "None", "Metadata", "Metadata", "All"))
	}
	if w.chance(2) {
		query.Set("pretty", "true")
	}
	r := Request{Path: w.path(k), Accept: accept, Encoding: encoding}
	if w.Bubble && w.chance(10) {
		r.Query, r.Accept = w.watch(query), strings.NewReplacer("ObjectMetadataList", "ObjectMetadata", "cbor", "json").Replace(accept)
		return r
	}
	if isIndexed := strings.Contains(query.Get("fieldSelector"), "spec.nodeName="); !isIndexed && w.chance(50) { // an index knows that no match follows
		query.Set("limit", pick(w, "1", "2", "3", "5", "8", "17", "30", "50", "500", "0"))
	}
	if w.chance(30) {
		query.Set("resourceVersion", w.version())
	}
	if query.Has("resourceVersion") && w.chance(60) || w.chance(2) {
		query.Set("resourceVersionMatch", pick(w, "Exact", "Exact", "NotOlderThan", "NotOlderThan", "x"))
	}
	if w.chance(2) {
		query.Set(pick(w, "limit", "continue"), pick(w, "x", "-1"))
	}
	r.Query = query.Encode()
	return r
}

// watch returns the query of a watch that begins with the objects and ends after a second. It begins with "watch".
func (w *world) watch(query url.Values) string {
	query.Set("timeoutSeconds", "1")
	if w.chance(70) {
		query.Set("sendInitialEvents", "true")
		query.Set("resourceVersionMatch", "NotOlderThan")
		query.Set("allowWatchBookmarks", "true")
	}
	if w.chance(30) {
		query.Set("resourceVersion", pick(w, "0", w.version()))
	}
	return "watch=true&" + query.Encode()
}

// version returns a resource version, often of a list before.
func (w *world) version() string {
	latest, oldest := w.revisions()
	if w.Bubble && w.chance(5) {
		return fmt.Sprint(latest + 100)
	}
	return pick(w, "0", "0", fmt.Sprint(latest), pick(w, append(w.versions, "0")...), fmt.Sprint(oldest+w.Uint64N(latest-oldest+1)), "1", pick(w, "", "", "x", "-1"))
}

// path returns a path of the objects of a kind, in one namespace or in all.
func (w *world) path(k kind) string {
	namespace := ""
	if k.namespaced && w.chance(50) {
		namespace = pick(w, namespaces...)
	}
	return k.path(pick(w, k.versions...), namespace)
}

// labelSelector returns a random selector.
func (w *world) labelSelector() string {
	var terms []string
	for range 1 + w.IntN(2) {
		key := pick(w, slices.Sorted(maps.Keys(labelValues))...)
		values := append([]string{"none"}, labelValues[key]...)
		one, other := pick(w, values...), pick(w, values...)
		terms = append(terms, pick(w, key+"="+one, key+"="+one, key+"!="+one, key, "!"+key, key+" in ("+one+","+other+")", key+" notin ("+one+","+other+")",
			key+">1", key+"<2", cmp.Or(pick(w, "", "", "", "", "==="), key)))
	}
	return strings.Join(terms, ",")
}

// fieldSelector returns a random selector of fields that a kind may have.
func (w *world) fieldSelector(k kind) string {
	var terms []string
	for range 1 + w.IntN(2) {
		field := pick(w, k.fields...)
		if w.chance(30) {
			field = pick(w, []string{"metadata.name", name(w.IntN(names))}, append([]string{"metadata.namespace", ""}, namespaces...), []string{"no.such", ""})
		}
		terms = append(terms, field[0]+pick(w, "=", "=", "==", "!=")+pick(w, field[1:]...))
	}
	return strings.Join(terms, ",")
}
