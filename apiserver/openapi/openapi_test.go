package openapi

import (
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	apischema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/openapi3"
	restclient "k8s.io/client-go/rest"
	"k8s.io/kube-openapi/pkg/spec3"
	"k8s.io/kube-openapi/pkg/util/proto"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"flyball.dev/apiserver/resource"
)

// readWrite is storage of one object that is read and written, such as a status.
type readWrite struct {
	rest.Storage
	rest.Patcher
}

func (readWrite) New() runtime.Object { return nil }
func (readWrite) Destroy()            {}

var patchTypes = []string{"application/json-patch+json", "application/merge-patch+json",
	"application/strategic-merge-patch+json", "application/apply-patch+yaml"}

func newResource(gvk apischema.GroupVersionKind, plural string) *resource.Resource {
	r := &resource.Resource{
		GroupVersion: gvk.GroupVersion(), Kind: gvk, ListKind: gvk.Kind + "List", Name: plural, Singular: strings.ToLower(gvk.Kind),
		Namespaced: true, Storage: &registry.Store{}, PatchTypes: patchTypes,
	}
	r.Subresources = []*resource.Resource{{GroupVersion: r.GroupVersion, Kind: gvk, Name: "status", Namespaced: true,
		Storage: readWrite{}, PatchTypes: patchTypes}}
	return r
}

func withScale(r *resource.Resource) *resource.Resource {
	r.Subresources = append(r.Subresources, &resource.Resource{GroupVersion: r.GroupVersion, Name: "scale", Namespaced: true,
		Kind: apischema.GroupVersionKind{Group: "autoscaling", Version: "v1", Kind: "Scale"}, Storage: readWrite{}, PatchTypes: patchTypes})
	return r
}

// returningDeleted makes the response of a deletion the deleted object.
func returningDeleted(r *resource.Resource) *resource.Resource {
	r.Storage = &registry.Store{ReturnDeletedObject: true}
	return r
}

func withoutSubresources(r *resource.Resource) *resource.Resource {
	r.Subresources = nil
	return r
}

// builtInResources returns kinds for which client-go has kube-apiserver's documents.
func builtInResources() []*resource.Resource {
	core := apischema.GroupVersion{Version: "v1"}
	apps := apischema.GroupVersion{Group: "apps", Version: "v1"}
	nodes := newResource(core.WithKind("Node"), "nodes")
	nodes.Namespaced, nodes.Subresources[0].Namespaced = false, false
	return []*resource.Resource{
		returningDeleted(newResource(core.WithKind("Pod"), "pods")),
		returningDeleted(newResource(core.WithKind("Service"), "services")),
		returningDeleted(newResource(core.WithKind("PersistentVolumeClaim"), "persistentvolumeclaims")),
		withoutSubresources(newResource(core.WithKind("ConfigMap"), "configmaps")),
		withoutSubresources(newResource(core.WithKind("Secret"), "secrets")),
		returningDeleted(withoutSubresources(newResource(core.WithKind("ServiceAccount"), "serviceaccounts"))),
		withoutSubresources(newResource(core.WithKind("Event"), "events")),
		withoutSubresources(newResource(core.WithKind("Endpoints"), "endpoints")),
		withScale(newResource(core.WithKind("ReplicationController"), "replicationcontrollers")),
		nodes,
		withScale(newResource(apps.WithKind("Deployment"), "deployments")),
		withScale(newResource(apps.WithKind("ReplicaSet"), "replicasets")),
		withScale(newResource(apps.WithKind("StatefulSet"), "statefulsets")),
		newResource(apps.WithKind("DaemonSet"), "daemonsets"),
		withoutSubresources(newResource(apps.WithKind("ControllerRevision"), "controllerrevisions")),
		newResource(apischema.GroupVersionKind{Group: "batch", Version: "v1", Kind: "Job"}, "jobs"),
		newResource(apischema.GroupVersionKind{Group: "batch", Version: "v1", Kind: "CronJob"}, "cronjobs"),
		withoutSubresources(newResource(apischema.GroupVersionKind{Group: "discovery.k8s.io", Version: "v1", Kind: "EndpointSlice"}, "endpointslices")),
	}
}

// customDocuments are the OpenAPI documents of a custom resource.
type customDocuments struct{ name, path string }

func (c customDocuments) V2() (*spec.Swagger, error) {
	return &spec.Swagger{SwaggerProps: spec.SwaggerProps{
		Paths:       &spec.Paths{Paths: map[string]spec.PathItem{c.path: {}}},
		Definitions: spec.Definitions{c.name: *spec.StringProperty(), "io.k8s.api.core.v1.Pod": *spec.StringProperty()},
	}}, nil
}

func (c customDocuments) V3() (*spec3.OpenAPI, error) {
	return &spec3.OpenAPI{
		Paths:      &spec3.Paths{Paths: map[string]*spec3.Path{c.path: {}}},
		Components: &spec3.Components{Schemas: map[string]*spec.Schema{c.name: spec.StringProperty()}},
	}, nil
}

func custom(kind string) *resource.Resource {
	r := newResource(apischema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: kind}, strings.ToLower(kind)+"s")
	r.OpenAPI = customDocuments{"com.example.v1." + kind, "/apis/example.com/v1/" + r.Name}
	return r
}

func serve(t *testing.T) (*resource.Catalog, *httptest.Server, *discovery.DiscoveryClient) {
	t.Helper()
	catalog := &resource.Catalog{}
	catalog.Set("built-in", builtInResources()...)
	server := httptest.NewServer(New(catalog, scheme.Scheme))
	t.Cleanup(server.Close)
	client, err := discovery.NewDiscoveryClientForConfig(&restclient.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	return catalog, server, client
}

func TestV3Client(t *testing.T) {
	catalog, _, client := serve(t)
	catalog.Set("custom", custom("App"))
	root := openapi3.NewRoot(client.OpenAPIV3())
	versions, err := root.GroupVersions()
	if err != nil {
		t.Fatal(err)
	}
	if len(versions) != 5 {
		t.Errorf("got %v", versions)
	}
	for _, gv := range versions {
		doc, err := root.GVSpec(gv)
		if err != nil {
			t.Fatal(err)
		}
		if len(doc.Paths.Paths) == 0 || len(doc.Components.Schemas) == 0 {
			t.Errorf("%s is empty", gv)
		}
		resolve(t, doc)
	}
}

// resolve checks that every reference in a document has a target.
func resolve(t *testing.T, doc *spec3.OpenAPI) {
	t.Helper()
	text, err := doc.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range strings.Split(string(text), `"$ref":"`)[1:] {
		ref, _, _ := strings.Cut(part, `"`)
		if doc.Components.Schemas[strings.TrimPrefix(ref, "#/components/schemas/")] == nil {
			t.Errorf("%s has no target", ref)
		}
	}
}

// TestFieldValidation checks the parameter that tells kubectl that the server validates fields.
func TestFieldValidation(t *testing.T) {
	_, _, client := serve(t)
	doc, err := openapi3.NewRoot(client.OpenAPIV3()).GVSpec(apischema.GroupVersion{Group: "apps", Version: "v1"})
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for path, item := range doc.Paths.Paths {
		if item.Patch == nil {
			continue
		}
		has := slices.ContainsFunc(item.Patch.Parameters, func(p *spec3.Parameter) bool { return p.In == "query" && p.Name == "fieldValidation" })
		kind, _ := item.Patch.Extensions["x-kubernetes-group-version-kind"].(map[string]any)
		if !has || kind["kind"] == "" {
			t.Errorf("%s: cannot be validated: %v", path, kind)
		}
		found++
	}
	if found == 0 {
		t.Error("nothing to patch")
	}
}

func TestV2Client(t *testing.T) {
	catalog, _, client := serve(t)
	catalog.Set("custom", custom("App"))
	doc, err := client.OpenAPISchema()
	if err != nil {
		t.Fatal(err)
	}
	models, err := proto.NewOpenAPIData(doc)
	if err != nil {
		t.Fatal(err)
	}
	pod, ok := models.LookupModel("io.k8s.api.core.v1.Pod").(*proto.Kind)
	if !ok {
		t.Fatalf("a pod is %T", models.LookupModel("io.k8s.api.core.v1.Pod"))
	}
	if _, ok := pod.Fields["spec"]; !ok || pod.Fields["metadata"].GetDescription() == "" {
		t.Errorf("a pod has %v", pod.Keys())
	}
	for _, name := range models.ListModels() {
		if r, ok := models.LookupModel(name).(*proto.Ref); ok && models.LookupModel(r.Reference()) == nil {
			t.Errorf("%s refers to nothing", name)
		}
	}
	if models.LookupModel("com.example.v1.App") == nil {
		t.Error("no custom model")
	}
}

// TestSharedVersion: a definition and an extension API server have the same group version.
func TestSharedVersion(t *testing.T) {
	for _, kinds := range [][2]string{{"Apple", "Zebra"}, {"Zebra", "Apple"}} {
		catalog, _, client := serve(t)
		remote := custom(kinds[1])
		remote.Remote = true
		catalog.Set("custom", custom(kinds[0]))
		catalog.Set("remote", remote)
		doc, err := client.OpenAPISchema()
		if err != nil {
			t.Fatal(err)
		}
		models, err := proto.NewOpenAPIData(doc)
		if err != nil {
			t.Fatal(err)
		}
		for _, kind := range kinds {
			if models.LookupModel("com.example.v1."+kind) == nil {
				t.Errorf("%v: no model of %s", kinds, kind)
			}
		}
	}
}

func get(t *testing.T, url string, header ...string) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequest("GET", url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(body)
}

func TestNegotiation(t *testing.T) {
	_, server, _ := serve(t)
	const v2proto, v3proto = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf", "application/com.github.proto-openapi.spec.v3.v1.0+protobuf"
	for _, test := range []struct {
		path, accept string
		status       int
		contentType  string
	}{
		{"/openapi/v2", "", 200, "application/json"},
		{"/openapi/v2", "application/*", 200, "application/json"},
		{"/openapi/v2", "application/com.github.proto-openapi.spec.v2@v1.0+protobuf", 200, v2proto},
		{"/openapi/v2", v2proto + ", application/json;q=0.5", 200, v2proto},
		{"/openapi/v2", "text/html", 406, "text/plain; charset=utf-8"},
		{"/openapi/v3", "", 200, "application/json"},
		{"/openapi/v3/", "*/*", 200, "application/json"},
		{"/openapi/v3/api/v1", "application/json", 200, "application/json"},
		{"/openapi/v3/apis/apps/v1", "application/com.github.proto-openapi.spec.v3@v1.0+protobuf", 200, v3proto},
		{"/openapi/v3/apis/apps/v1", v2proto, 406, "text/plain; charset=utf-8"},
		{"/openapi/v3/apis/nosuch/v1", "", 404, ""},
		{"/openapi/v4", "", 404, "text/plain; charset=utf-8"},
	} {
		resp, body := get(t, server.URL+test.path, "Accept", test.accept)
		if resp.StatusCode != test.status || resp.Header.Get("Content-Type") != test.contentType {
			t.Errorf("%s as %q: %d %q %.100s", test.path, test.accept, resp.StatusCode, resp.Header.Get("Content-Type"), body)
		}
		if etag := resp.Header.Get("Etag"); etag != "" {
			if resp, _ := get(t, server.URL+test.path, "Accept", test.accept, "If-None-Match", etag); resp.StatusCode != http.StatusNotModified {
				t.Errorf("%s unchanged: %d", test.path, resp.StatusCode)
			}
		}
	}
}

// TestChange adds a custom kind: its group's document changes, the others do not.
func TestChange(t *testing.T) {
	catalog, server, _ := serve(t)
	index := func() map[string]string {
		_, body := get(t, server.URL+"/openapi/v3")
		var list struct {
			Paths map[string]struct{ ServerRelativeURL string }
		}
		if err := json.Unmarshal([]byte(body), &list); err != nil {
			t.Fatal(err)
		}
		urls := map[string]string{}
		for name, p := range list.Paths {
			urls[name] = p.ServerRelativeURL
		}
		return urls
	}
	before := index()
	catalog.Set("custom", custom("App"))
	one := index()
	catalog.Set("custom", custom("App"), custom("Thing"))
	two := index()
	const name = "apis/example.com/v1"
	if before[name] != "" || one[name] == "" || one[name] == two[name] {
		t.Errorf("%q, %q, %q", before[name], one[name], two[name])
	}
	delete(one, name)
	delete(two, name)
	if !maps.Equal(before, one) || !maps.Equal(before, two) {
		t.Errorf("other documents changed: %v %v %v", before, one, two)
	}

	resp, body := get(t, server.URL+index()[name])
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Cache-Control") != "public, immutable" || !strings.Contains(body, "/apis/example.com/v1/things") {
		t.Errorf("%d %v %.100s", resp.StatusCode, resp.Header, body)
	}
	resp, _ = get(t, server.URL+"/openapi/v3/"+name+"?hash=OLD")
	if resp.StatusCode != http.StatusMovedPermanently || resp.Header.Get("Location") != index()[name] {
		t.Errorf("%d to %s", resp.StatusCode, resp.Header.Get("Location"))
	}
}

// FuzzAccept requests a document with any Accept header, which must succeed or return 406.
func FuzzAccept(f *testing.F) {
	f.Add("/openapi/v3", "", "*/*")
	f.Add("/openapi/v3/apis/discovery.k8s.io/v1", "hash=x", "application/json;q=0.5,application/*")
	f.Add("/openapi/v3/apis/apps", "", "a/b;;=")
	catalog := &resource.Catalog{}
	catalog.Set("built-in", builtInResources()[17:]...)
	handler := New(catalog, scheme.Scheme)
	f.Fuzz(func(t *testing.T, path, query, accept string) {
		r := httptest.NewRequest("GET", "/", nil)
		r.URL.Path, r.URL.RawQuery = path, query
		r.Header.Set("Accept", accept)
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		if !slices.Contains([]int{http.StatusOK, http.StatusMovedPermanently, http.StatusNotFound, http.StatusNotAcceptable}, w.Code) {
			t.Errorf("%d: %s", w.Code, w.Body)
		}
	})
}
