package apiserver_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apifuzzer "k8s.io/apimachinery/pkg/api/apitesting/fuzzer"
	"k8s.io/apimachinery/pkg/api/meta"
	metafuzzer "k8s.io/apimachinery/pkg/apis/meta/fuzzer"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apiserver/pkg/storage/value"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/randfill"

	"flyball.dev/apiserver"
	"flyball.dev/apiserver/admission"
	"flyball.dev/apiserver/authn"
	"flyball.dev/apiserver/builtin"
	"flyball.dev/apiserver/endpoints/endpointstest"
	"flyball.dev/apiserver/listtest"
	"flyball.dev/apiserver/store"
	"flyball.dev/internal/testlevel"
	"flyball.dev/storage"
	"flyball.dev/storage/memory"
)

// listed is a storage with objects of all kinds, and two servers on it: one with the fast path, and one without.
type listed struct {
	*fuzzed
	transformers value.ResourceTransformers // nil if nothing is encrypted
	upstream     *apiserver.Server
	collections  []string // paths of the objects in all namespaces, and of all namespaced ones in a namespace
}

// start starts a server on the storage.
func (l *listed) start(withoutFastPath bool) *apiserver.Server {
	l.tb.Helper()
	s, err := apiserver.New(apiserver.Options{Storage: l.storage, Authentication: authn.Config{}, WithoutFastPath: withoutFastPath, Transformers: l.transformers,
		Admission: admission.Options{Disable: []string{admission.ServiceAccount, "MutatingAdmissionWebhook", "ValidatingAdmissionWebhook"}}})
	if err != nil {
		l.tb.Fatal(err)
	}
	return s
}

// restartUpstream replaces the server without the fast path.
func (l *listed) restartUpstream() {
	l.tb.Helper()
	l.upstream.Stop()
	l.upstream = l.start(true)
}

// newListed starts the servers. Each kind has the object of seedsFile and random ones, some of them as JSON.
func newListed(t *testing.T, random int) *listed {
	t.Helper()
	return newEncrypted(t, random, nil)
}

// newEncrypted is newListed with encrypted objects.
func newEncrypted(t *testing.T, random int, transformers value.ResourceTransformers) *listed {
	t.Helper()
	backend := memory.New(memory.Options{CompressAfter: 10 * time.Second})
	l := &listed{fuzzed: &fuzzed{tb: t, storage: backend}, transformers: transformers}
	l.server = l.start(false)
	if w := l.send(http.MethodPost, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "", "application/json", "", widgets); w.Code != http.StatusCreated {
		t.Fatal(w.Code, w.Body)
	}
	for _, s := range l.seeds() {
		l.collections = append(l.collections, s.collection)
		if all := strings.Replace(s.collection, "/namespaces/default/", "/", 1); all != s.collection {
			l.collections = append(l.collections, all)
		}
	}
	l.fill(random)
	l.upstream = l.start(true)
	t.Cleanup(func() {
		l.upstream.Stop()
		l.server.Stop()
		backend.Close()
	})
	return l
}

// fill adds random objects beside the objects that there are.
func (l *listed) fill(n int) {
	random := rand.New(rand.NewSource(1))
	fill := apifuzzer.FuzzerFor(metafuzzer.Funcs, random, scheme.Codecs).NilChance(0.4).NumElements(0, 2).MaxDepth(30)
	page, err := l.storage.Range(l.tb.Context(), storage.Query{})
	if err != nil {
		l.tb.Fatal(err)
	}
	filled := map[string]bool{}
	for _, r := range page.Records {
		transformer := store.Transformer(l.transformers, schema.GroupResource{})
		data, _, err := store.Unseal(l.tb.Context(), transformer, r)
		if err != nil {
			l.tb.Fatal(err)
		}
		example, gvk, err := builtin.Codecs().UniversalDeserializer().Decode(data, nil, nil)
		if err != nil || !scheme.Scheme.Recognizes(*gvk) || filled[path.Dir(r.Key)] || gvk.Kind == "Namespace" {
			continue // such as a definition, which the servers would follow
		}
		filled[path.Dir(r.Key)] = true
		m, err := meta.Accessor(example)
		if err != nil {
			continue
		}
		for i := range n {
			obj := l.random(example, fill)
			if pod, ok := example.(*corev1.Pod); ok && i == 1 {
				obj = withoutDefaults(pod)
			}
			if pod, ok := obj.(*corev1.Pod); ok {
				pod.Spec.NodeName = fmt.Sprint("n", i%3)
			}
			name, _ := meta.Accessor(obj)
			name.SetName(fmt.Sprint("random-", i))
			name.SetNamespace(m.GetNamespace())
			name.SetLabels(map[string]string{"n": fmt.Sprint(i % 3)})
			name.SetResourceVersion("")
			obj.GetObjectKind().SetGroupVersionKind(*gvk)
			data, err := runtime.Encode(builtin.StorageCodec(gvk.GroupVersion().WithResource("any").GroupResource()), obj)
			if i%4 == 3 {
				data, err = json.Marshal(obj)
			}
			if err != nil {
				l.tb.Fatal(gvk, err)
			}
			key := path.Join(path.Dir(r.Key), name.GetName())
			if data, err = store.Seal(l.tb.Context(), transformer, key, data); err != nil {
				l.tb.Fatal(err)
			}
			if _, err := l.storage.Put(l.tb.Context(), storage.Write{Key: key, Value: data, If: storage.Absent}); err != nil {
				l.tb.Fatal(err)
			}
		}
	}
}

// withoutDefaults returns a pod with numbers that get defaults when the pod is read, and an encoding of the same size then.
func withoutDefaults(pod *corev1.Pod) *corev1.Pod {
	pod = pod.DeepCopy()
	pod.Spec.Containers[0].LivenessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(80)}}}
	return pod
}

// random returns a random object of the type of example.
func (l *listed) random(example runtime.Object, fill *randfill.Filler) runtime.Object {
	obj, err := builtin.Scheme().New(example.GetObjectKind().GroupVersionKind())
	if err != nil {
		l.tb.Fatal(err)
	}
	fill.Fill(obj)
	return obj
}

// get sends a request for a list to a server.
func (l *listed) get(s *apiserver.Server, path, query, accept, encoding string) *httptest.ResponseRecorder {
	l.tb.Helper()
	return listtest.Request{Path: path, Query: query, Accept: accept, Encoding: encoding}.Send(l.tb, s)
}

// compare compares the responses of the two servers, and returns the response.
func (l *listed) compare(path, query, accept, encoding string) *httptest.ResponseRecorder {
	l.tb.Helper()
	r := listtest.Request{Path: path, Query: query, Accept: accept, Encoding: encoding}
	response, difference := r.Compare(l.tb, l.server, l.upstream)
	if difference != "" {
		l.tb.Errorf("%v: %s", r, difference)
	}
	return response
}

const (
	jsonType, protobufType = "application/json", "application/vnd.kubernetes.protobuf"
	metadataList           = ";as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
)

// TestListsAsUpstream compares lists on the fast path with the handler of k8s.io/apiserver, byte for byte: lists of
// objects of all kinds that this server has written, of objects that it has not, and of both when nobody has used them
// for a while.
func TestListsAsUpstream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newListed(t, 12)
		paths := endpointstest.Count(t, "", "list")
		for _, state := range []string{"new", "decoded", "idle"} {
			if state == "idle" {
				time.Sleep(time.Minute)
				synctest.Wait()
			}
			for i, path := range l.collections {
				accepts := []string{jsonType, protobufType, "application/yaml", asTable, jsonType + metadataList, protobufType + metadataList}
				if !testlevel.Full() { // one encoding for each collection
					accepts = accepts[i%len(accepts):][:1]
				}
				for _, accept := range accepts {
					l.compare(path, "", accept, "gzip")
					if strings.Contains(accept, "yaml") {
						continue
					}
					for _, query := range []string{"resourceVersion=0", "labelSelector=n%3D1", "labelSelector=n%20in%20(0,2),!x&limit=3",
						"fieldSelector=metadata.name%3Drandom-1", "fieldSelector=metadata.namespace%3Ddefault,metadata.name!%3Drandom-2",
						"labelSelector=n%3Dnone", "limit=2&resourceVersion=0"} {
						l.compare(path, query, accept, "gzip")
					}
					l.pages(path, accept)
				}
				for _, accept := range []string{asTable, "application/json;as=Table;v=v1beta1;g=meta.k8s.io"} {
					for _, query := range []string{"includeObject=Object", "includeObject=None", "includeObject=All"} {
						l.compare(path, query, accept, "identity")
					}
				}
			}
		}
		ours := paths()
		t.Log(ours)
		if ours[endpointstest.Fast] < 1000 || ours[endpointstest.Fallback("resource")] > ours[endpointstest.Fast]/4 {
			t.Errorf("lists took the paths %v", ours)
		}
	})
}

// TestProtobufMetadataLists: lists of metadata as protobuf, as caches of metadata ask for, are copied from the stored bytes. Of
// custom resources, which are stored as JSON, no more than the metadata is decoded.
func TestProtobufMetadataLists(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newListed(t, 40)
		for _, path := range []string{"/api/v1/pods", "/apis/apps/v1/deployments", customPath} {
			paths := endpointstest.Count(t, "", "list")
			l.compare(path, "", protobufType+metadataList, "identity")
			l.compare(path, "labelSelector=n%3D1", protobufType+metadataList, "gzip")
			requireFast(t, paths())
		}
	})
}

// watchList is the query of a watch that begins with the existing objects, as the watches of informers do.
const watchList = "watch=true&timeoutSeconds=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"

// TestWatchListsAsUpstream compares the initial events of watches on the fast path with the handler of k8s.io/apiserver, byte for byte:
// of objects of all kinds, as TestListsAsUpstream does.
func TestWatchListsAsUpstream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newListed(t, 12)
		paths := endpointstest.Count(t, "", "watch")
		latest, _, err := l.storage.Revisions(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		const legacy = "watch=true&timeoutSeconds=1"
		for n, state := range []string{"new", "decoded", "idle"} {
			if state == "idle" {
				time.Sleep(time.Minute)
				synctest.Wait()
			}
			for i, path := range l.collections {
				accepts := []string{jsonType, protobufType}
				if !testlevel.Full() { // one encoding for each collection, and a third of the queries
					accepts = accepts[(i/2+n)%2:][:1]
				}
				for _, accept := range accepts {
					for j, query := range []string{watchList, watchList + "&resourceVersion=0", watchList + fmt.Sprint("&resourceVersion=", latest),
						legacy, legacy + "&resourceVersion=0&allowWatchBookmarks=true", watchList + "&labelSelector=n%20in%20(0,2),!x",
						watchList + "&fieldSelector=metadata.name%3Drandom-1", watchList + "&labelSelector=n%3Dnone",
						legacy + "&labelSelector=n%3D1&fieldSelector=metadata.namespace%3Ddefault,metadata.name!%3Drandom-2"} {
						if !testlevel.Full() && (i+j+n)%3 > 0 {
							continue
						}
						l.compare(path, query, accept, []string{"identity", "gzip"}[i%2])
					}
				}
			}
			for _, query := range []string{"&fieldSelector=spec.nodeName%3Dn1", "&fieldSelector=spec.nodeName%3Dn1,metadata.name!%3Drandom-3&labelSelector=n%3D1",
				"&fieldSelector=status.phase%3DRunning", "&fieldSelector=spec.nodeName!%3Dn1", fmt.Sprint("&resourceVersion=", latest+1000),
				"&resourceVersion=x", "&resourceVersionMatch=Exact", "&limit=3", "&continue=x"} {
				for _, accept := range []string{jsonType, protobufType, protobufType + "," + jsonType} {
					l.compare("/api/v1/pods", watchList+query, accept, "identity")
					l.compare("/api/v1/pods", legacy+"&sendInitialEvents=true"+query, accept, "identity")
					l.compare("/api/v1/pods", legacy+"&sendInitialEvents=false&resourceVersionMatch=NotOlderThan"+query, accept, "identity")
				}
			}
		}
		ours := paths()
		t.Log(ours)
		if ours[endpointstest.Fast] < 800 || ours[endpointstest.Fallback("resource")] > 0 || ours[endpointstest.Fallback("events")] > 0 ||
			ours[endpointstest.Decoded("version")] == 0 {
			t.Errorf("watches took the paths %v", ours)
		}
	})
}

// TestEncryptedListsAsUpstream compares lists and initial events of encrypted objects, as TestListsAsUpstream and
// TestWatchListsAsUpstream do.
func TestEncryptedListsAsUpstream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newEncrypted(t, 8, listtest.Flipping{})
		paths := endpointstest.Count(t, "", "list", "watch")
		for n, state := range []string{"new", "decoded", "idle"} {
			if state == "idle" {
				time.Sleep(time.Minute)
				synctest.Wait()
			}
			for i, path := range l.collections {
				for j, accept := range []string{jsonType, protobufType, asTable, jsonType + metadataList, protobufType + metadataList} {
					if !testlevel.Full() && (i+j+n)%5 > 0 { // one encoding for each collection
						continue
					}
					for _, query := range []string{"", "labelSelector=n%20in%20(0,2),!x&limit=3", "fieldSelector=metadata.name!%3Drandom-2"} {
						l.compare(path, query, accept, "identity")
					}
					if j < 2 {
						l.compare(path, watchList, accept, "identity")
						l.compare(path, watchList+"&labelSelector=n%3D1", accept, "identity")
					}
				}
			}
		}
		if ours := paths(); ours[endpointstest.Fast] < 500 {
			t.Errorf("lists took the paths %v", ours)
		}
	})
}

// TestCustomListsAsUpstream compares lists and initial events of custom resources with odd content, of this server and of others, also when their
// definition has changed: its defaults, its fields, and the version in which they are stored.
func TestCustomListsAsUpstream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newListed(t, 0)
		paths := endpointstest.Count(t, "widgets", "list")
		for i, content := range []string{
			`"spec":{"size":1}`, `"spec":{}`, `"status":{"ready":1}`,
			`"spec":{"free":{"b":1.0,"a":[1,-0,1e3,1.5,12345678901234567,null,true,{}],"<&>":"\u2028\u0000\"\\\u00e9é😀","":"","a b!":{"metadata":{"name":"x"}}}}`,
			`"spec":{"list":[{"k":"b"},{"k":"a"}]}`,
		} {
			w := l.send(http.MethodPost, customPath, "", "application/json", "", fmt.Sprintf(`{"apiVersion":"example.com/v1","kind":"Widget",
				"metadata":{"name":"created-%d","labels":{"n":"1"},"annotations":{"z":"}","a":"\"{"},"finalizers":["example.com/f"]},%s}`, i, content))
			if w.Code != http.StatusCreated {
				t.Fatal(w.Code, w.Body)
			}
		}
		for i, value := range []string{
			`{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"NAME","namespace":"default"},"spec":{"size":2}}`,
			`{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"NAME","namespace":"default"},"spec":{"size":2}}` + "\n",
			`{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"NAME","namespace":"default"}, "spec":{"size":2}}`,
			`{"kind":"Widget","apiVersion":"example.com/v1","metadata":{"namespace":"default","name":"NAME"},"spec":{"size":2}}`,
			`{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"NAME","namespace":"default"},"spec":{"free":{"a":1.0},"size":2,"unknown":1}}`,
			`{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"NAME","namespace":"default","resourceVersion":"7","unknown":1},"spec":{"size":2}}`,
			`{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"creationTimestamp":null,"name":"NAME","namespace":"default","selfLink":"/x","uid":"u"},"spec":{"size":2}}`,
			`{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"NAME","namespace":"default"},"spec":{"free":{"a":"<"},"size":2}}`,
			`{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"NAME","namespace":"default"},"spec":{"size":2},"spec":{"size":3}}`,
		} {
			name := fmt.Sprint("stored-", i)
			write := storage.Write{Key: "/registry/example.com/widgets/default/" + name, Value: []byte(strings.ReplaceAll(value, "NAME", name)), If: storage.Absent}
			if _, err := l.storage.Put(t.Context(), write); err != nil {
				t.Fatal(err)
			}
		}
		changes := []struct{ state, old, new string }{
			{"as created", "", ""},
			{"another default", `"size":{"type":"integer","default":1}`, `"size":{"type":"integer","default":1},"color":{"type":"string","default":"red"}`},
			{"a removed field", `"list":{"type":"array",`, `"lists":{"type":"array",`},
			{"another version", `"versions":[{"name":"v1","served":true,"storage":true,`, `"versions":[{"name":"v2","served":true,"storage":true,
				"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}},{"name":"v1","served":true,"storage":false,`},
		}
		definition := widgets
		for _, change := range changes {
			if definition = strings.Replace(definition, change.old, change.new, 1); change.old != "" {
				w := l.send(http.MethodPatch, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.com", "", "application/merge-patch+json", "", definition)
				if w.Code != http.StatusOK {
					t.Fatal(change.state, w.Code, w.Body)
				}
				l.restartUpstream() // it does not follow the definition
			}
			for range 3 { // new or read by the other server, read by this one, and idle
				for _, path := range []string{customPath, strings.Replace(customPath, "/v1/", "/v2/", 1)} {
					for _, accept := range []string{jsonType, asTable, jsonType + metadataList, protobufType + metadataList} {
						for _, query := range []string{"", "labelSelector=n%3D1", "limit=3"} {
							l.compare(path, query, accept, "identity")
						}
					}
					for _, query := range []string{"", "&labelSelector=n%3D1"} {
						l.compare(path, watchList+query, jsonType, "identity")
					}
				}
				time.Sleep(time.Minute)
				synctest.Wait()
			}
		}
		requireFast(t, paths())
	})
}

// requireFast fails the test unless every list took the fast path of one server, and was switched off on the other.
func requireFast(t *testing.T, paths endpointstest.Paths) {
	t.Helper()
	if n := paths[endpointstest.Fast]; n == 0 || !maps.Equal(paths, endpointstest.Paths{endpointstest.Fast: n, endpointstest.SwitchedOff: n}) {
		t.Errorf("lists took the paths %v", paths)
	}
}

// TestCustomListsAreCopied counts what a list of idle custom resources allocates: no object is decoded, and for metadata as protobuf only
// the metadata, once for the size of the list.
func TestCustomListsAreCopied(t *testing.T) {
	l := newListed(t, 0)
	const n, fields = 300, 100
	free := map[string]string{}
	for i := range fields {
		free[fmt.Sprint("field-", i)] = "x"
	}
	spec, err := json.Marshal(map[string]any{"size": 1, "free": free})
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		body := fmt.Sprintf(`{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"x-%d"},"spec":%s}`, i, spec)
		if w := l.send(http.MethodPost, customPath, "", "application/json", "", body); w.Code != http.StatusCreated {
			t.Fatal(w.Code, w.Body)
		}
	}
	for accept, most := range map[string]float64{jsonType: n, protobufType + metadataList: fields * n} {
		allocations := testing.AllocsPerRun(3, func() { l.get(l.server, customPath, "", accept, "identity") })
		if t.Logf("%s: %.0f allocations for %d objects", accept, allocations, n); allocations > most {
			t.Errorf("%s: %.0f allocations for %d objects, want at most %.0f", accept, allocations, n, most)
		}
	}
}

// pages compares the pages of a list.
func (l *listed) pages(path, accept string) {
	for next, pages := "", 0; pages < 4; pages++ {
		w := l.compare(path, "limit=5&continue="+url.QueryEscape(next), accept, "identity")
		list := struct {
			Metadata metav1.ListMeta `json:"metadata"`
		}{}
		j := l.get(l.server, path, "limit=5&continue="+url.QueryEscape(next), jsonType, "")
		if err := json.Unmarshal(j.Body.Bytes(), &list); err != nil {
			l.tb.Fatal(j.Body, err)
		}
		if next = list.Metadata.Continue; next == "" || w.Code != http.StatusOK {
			return
		}
	}
}

// TestListOptionsAsUpstream compares further parameters of lists, good and bad, and lists of old revisions.
func TestListOptionsAsUpstream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newListed(t, 4)
		latest, _, err := l.storage.Revisions(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for i := range 3 {
			l.send(http.MethodPatch, mapsPath+"/random-1", "", "application/merge-patch+json", "", fmt.Sprintf(`{"data":{"x":"%d"}}`, i))
			l.send(http.MethodDelete, customPath+fmt.Sprint("/random-", i), "", "", "", "")
		}
		paths := endpointstest.Count(t, "", "list")
		for _, path := range []string{mapsPath, "/api/v1/pods", customPath, "/api/v1/namespaces/none/configmaps", "/api/v1/namespaces", "/api/v1/nodes"} {
			for _, query := range []string{"pretty=true", "resourceVersion=1", fmt.Sprint("resourceVersion=", latest, "&resourceVersionMatch=Exact"),
				fmt.Sprint("resourceVersion=", latest, "&resourceVersionMatch=NotOlderThan"), fmt.Sprint("resourceVersion=", latest, "&limit=2"),
				fmt.Sprint("resourceVersion=", latest+100, "&resourceVersionMatch=NotOlderThan"), "resourceVersion=x", "resourceVersion=0&resourceVersionMatch=Exact",
				"limit=-1", "limit=x", "continue=x", "labelSelector=a%3D%3D%3D", "fieldSelector=x", "fieldSelector=status.phase%3DRunning",
				"fieldSelector=spec.nodeName%3D", "fieldSelector=no.such%3Dfield", "timeoutSeconds=1", "allowWatchBookmarks=true", "sendInitialEvents=true",
				"labelSelector=n", "labelSelector=!n", "labelSelector=n+notin+(1),n!%3D2", "labelSelector=n>0", "resourceVersionMatch=Exact"} {
				for _, accept := range []string{jsonType, protobufType, asTable, "*/*", "text/html", "application/cbor", "application/json;pretty=1",
					protobufType + "," + jsonType, jsonType + ";q=0.1," + protobufType} {
					l.compare(path, query, accept, "identity")
				}
			}
		}
		if ours := paths(); ours[endpointstest.Fast] < ours[endpointstest.SwitchedOff]/3 || ours[endpointstest.SwitchedOff] < 1000 {
			t.Errorf("lists took the paths %v", ours)
		}
	})
}

// TestLargeListsAsUpstream compares lists of about the size from which on they are compressed, and of several buffers.
func TestLargeListsAsUpstream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newListed(t, 0)
		paths := endpointstest.Count(t, "configmaps", "list")
		const size = 10_000
		for _, n := range []int{6, 7, 12, 13, 14, 50} {
			namespace := fmt.Sprint("large-", n)
			l.send(http.MethodPost, "/api/v1/namespaces", "", "application/json", "", fmt.Sprintf(`{"metadata":{"name":"%s"}}`, namespace))
			path := "/api/v1/namespaces/" + namespace + "/configmaps"
			for i := range n {
				body := fmt.Sprintf(`{"metadata":{"name":"m%d"},"data":{"a":"%s"}}`, i, strings.Repeat("<", size))
				if w := l.send(http.MethodPost, path, "", "application/json", "", body); w.Code != http.StatusCreated {
					t.Fatal(w.Code, w.Body)
				}
			}
			for _, encoding := range []string{"gzip", "identity", "br, gzip"} {
				l.compare(path, "", jsonType, encoding)
				l.compare(path, "", protobufType, encoding)
			}
		}
		requireFast(t, paths())
	})
}
