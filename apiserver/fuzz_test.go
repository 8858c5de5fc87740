package apiserver_test

import (
	"context"
	"encoding/json"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"

	"flyball.dev/apiserver"
	"flyball.dev/apiserver/admission"
	"flyball.dev/apiserver/authn"
	"flyball.dev/storage/memory"
)

// randomRequests is how many requests TestRandomRequests sends, and randomSeed their seed.
const randomRequests, randomSeed = 1000, 1

// fuzzed is a server with a few objects, which is replaced by a new one from time to time.
type fuzzed struct {
	tb       testing.TB
	storage  *memory.Store
	server   *apiserver.Server
	requests int
}

func (f *fuzzed) start() {
	f.storage = memory.New(memory.Options{})
	var err error
	if f.server, err = apiserver.New(apiserver.Options{
		Storage: f.storage, Authentication: authn.Config{},
		Admission: admission.Options{Disable: []string{admission.ServiceAccount}}, // nothing creates accounts here
	}); err != nil {
		f.tb.Fatal(err)
	}
	for _, o := range []struct{ path, body string }{
		{"/apis/apiextensions.k8s.io/v1/customresourcedefinitions", widgets},
		{"/api/v1/namespaces/default/configmaps", `{"metadata":{"name":"x","labels":{"a":"b"}},"data":{"a":"b"}}`},
		{"/api/v1/namespaces/default/pods", `{"metadata":{"name":"x"},"spec":{"containers":[{"name":"c","image":"i"}]}}`},
		{"/apis/apps/v1/namespaces/default/deployments", deployment},
		{"/apis/example.com/v1/namespaces/default/widgets", `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"x"},"spec":{"size":1}}`},
	} {
		if w := f.send(http.MethodPost, o.path, "", "application/json", "", o.body); w.Code != http.StatusCreated {
			f.tb.Fatalf("%s: %d %s", o.path, w.Code, w.Body)
		}
	}
	f.requests = 0
}

func (f *fuzzed) stop() {
	f.server.Stop()
	f.storage.Close()
}

// send returns nil if the arguments do not make a request.
func (f *fuzzed) send(method, path, query, contentType, accept, body string) *httptest.ResponseRecorder {
	target := (&url.URL{Path: path, RawQuery: query}).String()
	if !strings.HasPrefix(target, "/") || strings.HasPrefix(target, "//") {
		return nil
	}
	ctx := authn.WithUser(context.Background(), &user.DefaultInfo{Name: "fuzzer", Groups: []string{user.SystemPrivilegedGroup}})
	// A write may be committed and answered with a timeout, so only reads end early.
	if method == http.MethodGet && (strings.Contains(strings.ToLower(query), "w") || strings.Contains(path, "watch")) {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, 2*time.Millisecond) // it may be a watch
		defer cancel()
	}
	r, err := http.NewRequestWithContext(ctx, method, target, strings.NewReader(body))
	if err != nil {
		return nil
	}
	r.RequestURI, r.RemoteAddr = target, "fuzz"
	if contentType != "" {
		r.Header.Set("Content-Type", contentType)
	}
	if accept != "" {
		r.Header.Set("Accept", accept)
	}
	w := httptest.NewRecorder()
	f.server.ServeHTTP(w, r)
	return w
}

const (
	mapsPath   = "/api/v1/namespaces/default/configmaps"
	customPath = "/apis/example.com/v1/namespaces/default/widgets"
	asTable    = "application/json;as=Table;v=v1;g=meta.k8s.io"
)

// requests are requests of all kinds, good and bad: method, path, query, content type, accept and
// body.
var requests = [][6]string{
	{"GET", "/api", "", "", "", ""},
	{"GET", "/apis", "", "", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList", ""},
	{"GET", "/apis/apps/v1", "", "", "application/yaml", ""},
	{"GET", "/openapi/v2", "", "", "", ""},
	{"GET", "/openapi/v3/apis/example.com/v1", "hash=x", "", "", ""},
	{"GET", "/readyz/shutdown", "verbose&exclude=ping", "", "", ""},
	{"GET", mapsPath, "limit=1&continue=x", "", asTable, ""},
	{"GET", mapsPath, "labelSelector=a%20in%20(b,c),!d&fieldSelector=metadata.name=x", "", "application/vnd.kubernetes.protobuf", ""},
	{"GET", mapsPath, "resourceVersion=abc", "", "", ""},
	{"GET", mapsPath, "resourceVersion=1&resourceVersionMatch=Exact", "", "", ""},
	{"GET", mapsPath, "watch=true&resourceVersion=abc", "", "", ""},
	{"GET", mapsPath, "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true", "", asTable, ""},
	{"GET", mapsPath + "/x", "resourceVersion=99999999999999999999", "", asTable, ""},
	{"GET", "/api/v1/watch/namespaces/default/pods/x", "timeoutSeconds=-1", "", "", ""},
	{"GET", "/api/v1/namespaces/default/pods/x/log", "tailLines=-1&container=y&sinceSeconds=x", "", "", ""},
	{"GET", "/api/v1/namespaces/default/status/foo", "", "", "", ""},
	{"GET", customPath + "/x/status", "", "", "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io", ""},
	{"POST", mapsPath, "dryRun=All&fieldManager=me&fieldValidation=Strict", "application/json", "", `{"metadata":{"generateName":"y"},"data":{"a":"1","a":"2"}}`},
	{"POST", mapsPath, "", "application/yaml", "", "metadata: {name: y, managedFields: [{manager: m, operation: Apply, apiVersion: v1, fieldsType: FieldsV1, fieldsV1: {'f:data': {}}}]}"},
	{"POST", mapsPath, "", "application/vnd.kubernetes.protobuf", "application/vnd.kubernetes.protobuf", "k8s\x00\n\x0f\n\x02v1\x12\tConfigMap\x12\x07\n\x05\n\x01y\x12\x00"},
	{"POST", mapsPath, "", "application/cbor", "application/cbor", "\xd9\xd9\xf7\xa1\x68metadata\xa1\x64name\x61y"},
	{"POST", customPath, "", "application/json", "", `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"y","ownerReferences":[{}],"finalizers":["a/b"]},"spec":{"size":"1","list":[{"k":"a"},{"k":"a"}]}}`},
	{"POST", "/apis/apps/v1/namespaces/default/deployments", "", "application/json", "", deployment},
	{"POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "", "application/yaml", "", strings.ReplaceAll(widgets, "widget", "gadget")},
	{"POST", "/api/v1/namespaces/default/pods/x/eviction", "", "application/json", "", `{"metadata":{"name":"x"}}`},
	{"POST", "/api/v1/namespaces/default/pods/x/binding", "", "application/json", "", `{"target":{"name":"n"}}`},
	{"POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", "", "application/json", "", `{"spec":{"resourceAttributes":{"verb":"get","resource":"pods"}}}`},
	{"POST", "/apis/authentication.k8s.io/v1/tokenreviews", "", "application/json", "", `{"spec":{"token":"x"}}`},
	{"PUT", mapsPath + "/x", "", "application/json", "", `{"metadata":{"name":"x","resourceVersion":"abc","uid":"u","deletionTimestamp":"2020-01-01T00:00:00Z"},"data":null}`},
	{"PUT", "/apis/apps/v1/namespaces/default/deployments/x/scale", "", "application/json", "", `{"metadata":{"name":"x","namespace":"default"},"spec":{"replicas":-2}}`},
	{"PUT", "/api/v1/namespaces/default/finalize", "", "application/json", "", `{"metadata":{"name":"default"},"spec":{"finalizers":[]}}`},
	{"PUT", customPath + "/x/status", "", "application/json", "", `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"x","resourceVersion":"-1"},"status":{"ready":1}}`},
	{"PATCH", mapsPath + "/x", "", "application/json-patch+json", "", `[{"op":"test","path":"/data/a","value":"b"},{"op":"move","from":"/data","path":"/metadata/labels/~1"},{"op":"copy","from":"","path":"/data/x"}]`},
	{"PATCH", mapsPath + "/x", "", "application/merge-patch+json", "", `{"metadata":{"resourceVersion":"abc","labels":null,"managedFields":[{}]},"data":[]}`},
	{"PATCH", "/apis/apps/v1/namespaces/default/deployments/x", "", "application/strategic-merge-patch+json", "", `{"spec":{"template":{"spec":{"containers":[{"name":"c","$patch":"delete"},{"$patch":"replace"}],"$setElementOrder/containers":[{"name":"d"}],"$retainKeys":["a"]}}}}`},
	{"PATCH", customPath + "/x", "fieldManager=me&force=true", "application/apply-patch+yaml", "", "{apiVersion: example.com/v1, kind: Widget, metadata: {name: x, resourceVersion: abc}, spec: {size: 2}}"},
	{"PATCH", "/apis/apps/v1/namespaces/default/deployments/x/scale", "fieldManager=me", "application/apply-patch+yaml", "", "{apiVersion: autoscaling/v1, kind: Scale, metadata: {name: x}, spec: {replicas: 2}}"},
	{"PATCH", customPath + "/x", "fieldManager=me", "application/apply-patch+yaml", "", "{apiVersion: example.com/v1, kind: Widget, unknown: 0}"},
	{"PATCH", "/apis/apps/v1/namespaces/default/deployments/x", "", "application/strategic-merge-patch+json", "", `{"spec":{"template":{"spec":{"containers":[""]}}}}`},
	{"DELETE", mapsPath + "/x", "propagationPolicy=Foreground&gracePeriodSeconds=-1", "application/json", "", `{"preconditions":{"uid":"u","resourceVersion":"abc"},"orphanDependents":true}`},
	{"DELETE", mapsPath, "labelSelector=a=b&limit=-1", "", "", ""},
	{"DELETE", customPath + "/x", "", "application/json", "", `{"kind":"DeleteOptions","apiVersion":"v1","dryRun":["All","x"]}`},
	{"OPTIONS", mapsPath, "timeout=1x", "", "", ""},
	{"HEAD", "/api/v1/nodes", "", "", "text/html", ""},
	{"CONNECT", "/api/v1/namespaces/default/pods/x/exec", "command=a", "", "", ""},
}

// FuzzRequest checks that no request makes the server panic or answer 500.
func FuzzRequest(f *testing.F) {
	for _, r := range requests {
		f.Add(r[0], r[1], r[2], r[3], r[4], r[5])
	}
	s := &fuzzed{tb: f}
	s.start()
	f.Cleanup(s.stop)
	f.Fuzz(func(t *testing.T, method, path, query, contentType, accept, body string) {
		if s.requests++; s.requests > 5000 {
			s.stop()
			s.start()
		}
		s.check(t, method, path, query, contentType, accept, body)
	})
}

// check sends a request, and fails on an internal error. It returns nil if there is no response.
func (f *fuzzed) check(t *testing.T, method, path, query, contentType, accept, body string) *httptest.ResponseRecorder {
	w := f.send(method, path, query, contentType, accept, body)
	if w == nil {
		return nil
	}
	switch w.Code {
	case http.StatusNotImplemented, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
	default:
		if w.Code >= 500 {
			t.Errorf("%s %s?%s (%s, accepting %s) with\n%q\ngot %d %s", method, path, query, contentType, accept, body, w.Code, w.Body)
		}
	}
	return w
}

// TestRandomRequests combines parts of different requests, with values changed in their bodies.
func TestRandomRequests(t *testing.T) {
	s := &fuzzed{tb: t}
	s.start()
	defer s.stop()
	random := rand.New(rand.NewPCG(1, randomSeed))
	for range randomRequests {
		line, query, content := requests[random.IntN(len(requests))], requests[random.IntN(len(requests))], requests[random.IntN(len(requests))]
		if random.IntN(2) == 0 {
			content = line
		}
		body := content[5]
		var value any
		if json.Unmarshal([]byte(body), &value) == nil {
			for range random.IntN(3) {
				value = changed(random, value)
			}
			changed, err := json.Marshal(value)
			if err != nil {
				t.Fatal(err)
			}
			body = string(changed)
		}
		s.check(t, line[0], line[1], query[2], content[3], line[4], body)
	}
}

// changed is a document with one of its values replaced.
func changed(random *rand.Rand, v any) any {
	switch v := v.(type) {
	case map[string]any:
		if len(v) > 0 && random.IntN(8) > 0 {
			keys := slices.Sorted(maps.Keys(v))
			key := keys[random.IntN(len(keys))]
			v[key] = changed(random, v[key])
			return v
		}
	case []any:
		if len(v) > 0 && random.IntN(8) > 0 {
			at := random.IntN(len(v))
			v[at] = changed(random, v[at])
			return v
		}
	}
	return [...]any{nil, true, 0, -1, 1.5, 1e30, "", "x", "abc", "-1", "a/b/c", []any{}, []any{nil}, []any{""}, map[string]any{}, map[string]any{"a": nil}}[random.IntN(16)]
}

const deployment = `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"x"},"spec":{"selector":{"matchLabels":{"a":"b"}},
	"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i","ports":[{"containerPort":80}]}]}}}}`

const widgets = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"widgets.example.com"},"spec":{
	"group":"example.com","scope":"Namespaced","names":{"plural":"widgets","singular":"widget","kind":"Widget","listKind":"WidgetList"},
	"versions":[{"name":"v1","served":true,"storage":true,"subresources":{"status":{},"scale":{"specReplicasPath":".spec.size","statusReplicasPath":".status.ready"}},
	"additionalPrinterColumns":[{"name":"Size","type":"integer","jsonPath":".spec.size"}],
	"schema":{"openAPIV3Schema":{"type":"object","properties":{
		"spec":{"type":"object","properties":{"size":{"type":"integer","default":1},"free":{"type":"object","x-kubernetes-preserve-unknown-fields":true},
			"list":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["k"],"items":{"type":"object","required":["k"],"properties":{"k":{"type":"string"}}}}},
			"x-kubernetes-validations":[{"rule":"self.size >= 0"}]},
		"status":{"type":"object","properties":{"ready":{"type":"integer"}}}}}}}]}}`
