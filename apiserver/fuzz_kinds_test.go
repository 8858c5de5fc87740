package apiserver_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apiserver/pkg/authentication/user"
	"sigs.k8s.io/yaml"

	"flyball.dev/apiserver/authn"
	"flyball.dev/apiserver/builtin"
)

// kindRequests is how many requests TestRandomKinds sends.
const kindRequests = 3000

// seedsFile has a valid object of each kind.
const seedsFile = "../test/oracle/seeds.txtar"

// seed is a valid object of a kind, which the server has.
type seed struct {
	collection, name string
	object           map[string]any
	subresources     []string
}

// seeds creates the objects of seedsFile and one of a custom kind, and finds out their subresources.
func (f *fuzzed) seeds() []seed {
	text, err := os.ReadFile(seedsFile)
	if err != nil {
		f.tb.Fatal(err)
	}
	subresources := f.subresources()
	var seeds []seed
	add := func(path, body string) {
		object := map[string]any{}
		if err := yaml.Unmarshal([]byte(body), &object); err != nil {
			f.tb.Fatalf("%s: %v", path, err)
		}
		if w := f.send(http.MethodPost, path, "", "application/yaml", "application/json", body); w.Code != http.StatusCreated &&
			w.Code != http.StatusConflict {
			f.tb.Fatalf("%s: %d %s", path, w.Code, w.Body)
		} else if err := json.Unmarshal(w.Body.Bytes(), &object); err != nil || w.Code != http.StatusCreated {
			object["apiVersion"], object["kind"] = "v1", "Namespace"
		}
		name, _ := object["metadata"].(map[string]any)["name"].(string)
		seeds = append(seeds, seed{path, name, object, subresources[strings.Replace(path, "/namespaces/default/", "/", 1)]})
	}
	for _, section := range strings.Split("\n"+string(text), "\n-- ")[1:] {
		_, request, _ := strings.Cut(section, " --\n")
		line, body, _ := strings.Cut(request, "\n\n")
		path := strings.TrimPrefix(line, "POST ")
		if !strings.HasPrefix(path, "/") {
			version, resource := path[:strings.LastIndex(path, "/")], path[strings.LastIndex(path, "/")+1:]
			root := "/apis/"
			if version == "v1" {
				root = "/api/"
			}
			path = root + version + "/namespaces/default/" + resource
		}
		add(path, strings.ReplaceAll(body, "$NS", "default"))
	}
	add(customPath, `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"seed"},"spec":{"size":1,"free":{"a":1},"list":[{"k":"a"}]}}`)
	return seeds
}

// subresources returns the names of subresources by the path of the resource in all namespaces.
func (f *fuzzed) subresources() map[string][]string {
	var groups metav1.APIGroupList
	f.get("/apis", &groups)
	roots := []string{"/api/v1"}
	for _, g := range groups.Groups {
		for _, v := range g.Versions {
			roots = append(roots, "/apis/"+v.GroupVersion)
		}
	}
	names := map[string][]string{}
	for _, root := range roots {
		var list metav1.APIResourceList
		f.get(root, &list)
		for _, r := range list.APIResources {
			if resource, name, ok := strings.Cut(r.Name, "/"); ok {
				path := root + "/" + resource
				names[path] = append(names[path], name)
			}
		}
	}
	return names
}

// get gets a document.
func (f *fuzzed) get(path string, into any) {
	w := f.send(http.MethodGet, path, "", "", "application/json", "")
	if w.Code != http.StatusOK {
		f.tb.Fatalf("%s: %d %s", path, w.Code, w.Body)
	}
	if err := json.Unmarshal(w.Body.Bytes(), into); err != nil {
		f.tb.Fatal(err)
	}
}

// The parts of random requests.
var (
	acceptTypes = []string{"", "*/*", "application/json", "application/yaml", "application/vnd.kubernetes.protobuf",
		"application/cbor", asTable, "application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io",
		"application/yaml;as=PartialObjectMetadata;v=v1;g=meta.k8s.io", "application/cbor;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
		"application/json;stream=watch", "text/plain", "application/json;as=Table;v=v9;g=x, */*"}
	writeQueries = []string{"", "", "", "dryRun=All", "dryRun=All&fieldValidation=Strict", "fieldValidation=Strict",
		"fieldValidation=Warn&fieldManager=me", "fieldManager=me&force=true", "force=true", "fieldManager=%00", "dryRun=x", "pretty=1",
		"dryRun=All&fieldManager=kubectl&force=false"}
	readQueries = []string{"", "limit=1", "limit=-1", "limit=1&continue=x", "resourceVersion=0", "resourceVersion=1&resourceVersionMatch=Exact",
		"resourceVersionMatch=NotOlderThan", "labelSelector=a,!b,c%20in%20(d)", "labelSelector=%3D", "fieldSelector=metadata.name%3Dx",
		"fieldSelector=spec.x%21%3Dy", "watch=1&timeoutSeconds=0", "watch=true&resourceVersion=0&allowWatchBookmarks=1",
		"watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true", "watch=1&sendInitialEvents=false",
		"watch=1&resourceVersion=99999999", "watch=1&limit=1&fieldSelector=metadata.name%3Dx", "includeObject=Object", "includeObject=x",
		"timeoutSeconds=x", "allowWatchBookmarks=x", "pretty=x"}
	deleteBodies = []string{"", `{}`, `{"propagationPolicy":"Foreground"}`, `{"propagationPolicy":"x"}`, `{"gracePeriodSeconds":-1}`,
		`{"gracePeriodSeconds":0,"propagationPolicy":"Orphan"}`, `{"preconditions":{"uid":"x"}}`, `{"preconditions":{"resourceVersion":"x"}}`,
		`{"orphanDependents":true,"propagationPolicy":"Background"}`, `{"ignoreStoreReadErrorWithClusterBreakingPotential":true}`,
		`{"dryRun":["All","x"]}`, `[]`, `{"kind":"Pod","apiVersion":"v1"}`}
	// bodies are for subresources that cannot be read.
	bodies = map[string]string{
		"binding": `{"target":{"kind":"Node","name":"n"}}`, "eviction": `{"metadata":{"name":"generated"},"deleteOptions":{"gracePeriodSeconds":0}}`,
		"token": `{"spec":{"audiences":["a"],"expirationSeconds":600,"boundObjectRef":{"kind":"Pod","apiVersion":"v1","name":"generated"}}}`,
	}
)

// one returns a random item of a list.
func one[T any](random *rand.Rand, list []T) T { return list[random.IntN(len(list))] }

// encode encodes a document in a random encoding, and damages some.
func encode(random *rand.Rand, object map[string]any) (contentType, body string) {
	data, err := json.Marshal(object)
	contentType = "application/json"
	switch random.IntN(6) {
	case 0:
		contentType = "application/yaml"
		data, err = yaml.Marshal(object)
	case 1:
		contentType = "application/cbor"
		data, err = direct.Marshal(object)
	case 2, 3:
		if typed := typed(object, data); typed != nil {
			contentType = "application/vnd.kubernetes.protobuf"
			scheme := builtin.Scheme()
			data, err = runtime.Encode(protobuf.NewSerializer(scheme, scheme), typed)
		}
	}
	if err != nil {
		return contentType, ""
	}
	if len(data) > 0 && random.IntN(6) == 0 {
		data = slices.Clone(data)
		for range 1 + random.IntN(3) {
			b := byte(random.Uint32())
			if contentType == "application/vnd.kubernetes.protobuf" {
				b &= 0x7f // raw JSON in protobuf that is not UTF-8 cannot be read as YAML, as in kube-apiserver
			}
			data[random.IntN(len(data))] = b
		}
	}
	return contentType, string(data)
}

// typed returns the Go value of a document, or nil.
func typed(object map[string]any, data []byte) runtime.Object {
	version, _ := object["apiVersion"].(string)
	kind, _ := object["kind"].(string)
	obj, err := builtin.Scheme().New(schema.FromAPIVersionAndKind(version, kind))
	if err != nil || json.Unmarshal(data, obj) != nil {
		return nil
	}
	return obj
}

// clone returns a copy of a document.
func clone(object map[string]any) map[string]any {
	return runtime.DeepCopyJSON(numbers(object).(map[string]any))
}

// numbers converts Go integers to JSON numbers.
func numbers(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for key := range v {
			v[key] = numbers(v[key])
		}
	case []any:
		for i := range v {
			v[i] = numbers(v[i])
		}
	case int:
		return int64(v)
	}
	return v
}

// pointer returns a JSON pointer to a random value of a document.
func pointer(random *rand.Rand, v any) string {
	path := ""
	for random.IntN(5) > 0 {
		switch at := v.(type) {
		case map[string]any:
			if len(at) == 0 {
				return path
			}
			keys := make([]string, 0, len(at))
			for key := range at {
				keys = append(keys, key)
			}
			slices.Sort(keys)
			key := one(random, keys)
			path, v = path+"/"+strings.NewReplacer("~", "~0", "/", "~1").Replace(key), at[key]
		case []any:
			if len(at) == 0 {
				return path + "/-"
			}
			i := random.IntN(len(at))
			path, v = fmt.Sprintf("%s/%d", path, i), at[i]
		default:
			return path
		}
	}
	return path
}

// write returns a random write of a seed.
func (f *fuzzed) write(random *rand.Rand, s seed) (method, path, query, contentType, body string) {
	path, query = s.collection+"/"+s.name, one(random, writeQueries)
	object := clone(s.object)
	var sub string
	if len(s.subresources) > 0 && random.IntN(2) == 0 {
		sub = one(random, s.subresources)
		path += "/" + sub
		if text, ok := bodies[sub]; ok {
			object = map[string]any{}
			_ = json.Unmarshal([]byte(text), &object)
		}
	}
	if random.IntN(3) > 0 { // the object as it is
		if w := f.send(http.MethodGet, path, "", "", "application/json", ""); w != nil && w.Code == http.StatusOK {
			current := map[string]any{}
			if json.Unmarshal(w.Body.Bytes(), &current) == nil {
				object = current
			}
		}
	}
	old := clone(object)
	for range random.IntN(4) {
		if next, ok := changed(random, object).(map[string]any); ok {
			object = next
		}
	}
	object = clone(object)
	meta, _ := object["metadata"].(map[string]any)
	switch random.IntN(7) {
	case 0, 1:
		if sub == "" {
			path = s.collection
			if meta != nil && random.IntN(2) == 0 {
				delete(meta, "name")
				delete(meta, "resourceVersion")
				meta["generateName"] = "g-"
			}
		}
		contentType, body = encode(random, object)
		return http.MethodPost, path, query, contentType, body
	case 2, 3:
		contentType, body = encode(random, object)
		return http.MethodPut, path, query, contentType, body
	}
	if meta != nil && random.IntN(2) == 0 {
		delete(meta, "managedFields")
	}
	data, err := json.Marshal(object)
	if err != nil {
		return http.MethodGet, path, "", "", ""
	}
	switch contentType = one(random, []string{"application/json-patch+json", "application/merge-patch+json",
		"application/strategic-merge-patch+json", "application/apply-patch+yaml", "application/apply-patch+cbor"}); contentType {
	case "application/json-patch+json":
		var operations []any
		for range 1 + random.IntN(3) {
			operations = append(operations, map[string]any{"op": one(random, []string{"add", "remove", "replace", "move", "copy", "test", "x"}),
				"path": pointer(random, old), "from": pointer(random, old), "value": changed(random, nil)})
		}
		if data, err = json.Marshal(operations); err != nil {
			data = nil
		}
	case "application/apply-patch+cbor":
		if data, err = direct.Marshal(object); err != nil {
			data = nil
		}
	}
	return http.MethodPatch, path, query, contentType, string(data)
}

// kind sends a random request for the object of a seed. Rejected requests and dry runs must change nothing, and written
// objects must be readable in each encoding.
func (f *fuzzed) kind(t *testing.T, random *rand.Rand, seeds []seed) {
	s := one(random, seeds)
	var method, path, query, contentType, body string
	switch random.IntN(8) {
	case 0, 1:
		method, path, query = http.MethodGet, s.collection+"/"+s.name, one(random, readQueries)
		if random.IntN(3) > 0 {
			path = s.collection
		}
	case 2:
		method, path, query = http.MethodDelete, s.collection+"/"+s.name, "dryRun=All"
		// Options in the body replace options in the query.
		contentType, body = "application/json", one(random, deleteBodies)
		if dry, ok := strings.CutSuffix(body, "}"); ok && len(body) > 2 {
			body = dry + `,"dryRun":["All"]}`
		} else if body == `{}` {
			body = `{"dryRun":["All"]}`
		}
	default:
		method, path, query, contentType, body = f.write(random, s)
	}
	before, _, err := f.storage.Revisions(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	w := f.check(t, method, path, query, contentType, one(random, acceptTypes), body)
	if w == nil || method == http.MethodGet {
		return
	}
	keys := f.changedSince(t, before)
	if (w.Code >= 400 || strings.Contains(query, "dryRun=All")) && len(keys) > 0 {
		t.Errorf("%s %s?%s (%s) with\n%q\nwas answered with %d and has changed %v: %s", method, path, query, contentType, body, w.Code, keys, w.Body)
	}
	if w.Code < 300 && len(keys) > 0 {
		f.check(t, http.MethodGet, s.collection+"/"+s.name, "", "", one(random, acceptTypes[:7]), "")
	}
}

// changedSince returns the keys written after a revision, except APIServices, because the server updates their
// conditions.
func (f *fuzzed) changedSince(t *testing.T, revision uint64) []string {
	w, err := f.storage.Watch(context.Background(), "", revision)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	var keys []string
	for {
		events, _, err := w.Next()
		if err != nil {
			t.Fatal(err)
		}
		if len(events) == 0 {
			return keys
		}
		for _, e := range events {
			if !strings.Contains(e.Record.Key, "apiregistration") {
				keys = append(keys, e.Record.Key)
			}
		}
	}
}

// FuzzKinds sends requests that the fuzzer's bytes choose for an object of each kind.
func FuzzKinds(f *testing.F) {
	for i := range uint64(20) {
		f.Add(i, i)
	}
	s := &fuzzed{tb: f}
	s.start()
	f.Cleanup(s.stop)
	seeds := s.seeds()
	f.Fuzz(func(t *testing.T, a, b uint64) {
		random := rand.New(rand.NewPCG(a, b))
		for range 1 + random.IntN(5) {
			s.kind(t, random, seeds)
		}
	})
}

// TestRandomKinds sends requests of every verb, encoding and patch type for an object of each kind.
func TestRandomKinds(t *testing.T) {
	s := &fuzzed{tb: t}
	s.start()
	defer s.stop()
	seeds := s.seeds()
	random := rand.New(rand.NewPCG(2, randomSeed))
	for range kindRequests {
		s.kind(t, random, seeds)
	}
}

// TestBookmarksAsTables watches each kind as a table. If there are no objects, the first event is a bookmark.
func TestBookmarksAsTables(t *testing.T) {
	s := &fuzzed{tb: t}
	s.start()
	defer s.stop()
	for _, seed := range s.seeds() {
		ctx, cancel := context.WithCancel(authn.WithUser(t.Context(), &user.DefaultInfo{Name: "fuzzer", Groups: []string{user.SystemPrivilegedGroup}}))
		r := httptest.NewRequestWithContext(ctx, http.MethodGet, seed.collection+
			"?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&fieldSelector=metadata.name%3Dnone", nil)
		r.Header.Set("Accept", asTable)
		w := &untilBookmark{ResponseRecorder: httptest.NewRecorder(), end: cancel}
		s.server.ServeHTTP(w, r)
		cancel()
		if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "BOOKMARK") {
			t.Errorf("%s: %d %s", seed.collection, w.Code, w.Body)
		}
	}
}

// untilBookmark ends the watch that is written to it after a bookmark, or anything that is no watch.
type untilBookmark struct {
	*httptest.ResponseRecorder
	end func()
}

func (w *untilBookmark) Write(p []byte) (int, error) {
	if strings.Contains(string(p), "BOOKMARK") || w.Code != http.StatusOK {
		w.end()
	}
	return w.ResponseRecorder.Write(p)
}
