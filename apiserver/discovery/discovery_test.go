package discovery

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes/scheme"
	restclient "k8s.io/client-go/rest"

	"flyball.dev/apiserver/resource"
)

// readWrite is storage of one object that is read and written, such as a status.
type readWrite struct {
	rest.Storage
	rest.Patcher
}

func (readWrite) New() runtime.Object { return nil }
func (readWrite) Destroy()            {}

// connecter is the storage of a subresource such as pods/exec.
type connecter struct{ rest.Storage }

func (connecter) ConnectMethods() []string { return []string{"GET", "POST", "HEAD"} }
func (connecter) Connect(context.Context, string, runtime.Object, rest.Responder) (http.Handler, error) {
	return nil, nil
}
func (connecter) NewConnectOptions() (runtime.Object, bool, string) { return nil, false, "" }

func newResource(group, version, kind, plural string) *resource.Resource {
	gv := schema.GroupVersion{Group: group, Version: version}
	return &resource.Resource{
		GroupVersion: gv, Kind: gv.WithKind(kind), ListKind: kind + "List", Name: plural, Singular: strings.ToLower(kind),
		Namespaced: true, Storage: &registry.Store{}, StorageVersionHash: "hash",
	}
}

func addSubresource(parent *resource.Resource, name string, kind schema.GroupVersionKind, storage rest.Storage) {
	parent.Subresources = append(parent.Subresources, &resource.Resource{
		GroupVersion: parent.GroupVersion, Kind: kind, Name: name, Namespaced: parent.Namespaced, Storage: storage,
	})
}

func catalog() *resource.Catalog {
	pods := newResource("", "v1", "Pod", "pods")
	pods.ShortNames, pods.Categories = []string{"po"}, []string{"all"}
	addSubresource(pods, "status", pods.Kind, readWrite{})
	addSubresource(pods, "exec", schema.GroupVersionKind{Version: "v1", Kind: "PodExecOptions"}, connecter{})
	deployments := newResource("apps", "v1", "Deployment", "deployments")
	addSubresource(deployments, "scale", schema.GroupVersionKind{Group: "autoscaling", Version: "v1", Kind: "Scale"}, readWrite{})
	nodes := newResource("", "v1", "Node", "nodes")
	nodes.Namespaced, nodes.Verbs = false, []string{"get", "list"}
	c := &resource.Catalog{}
	c.Set("built-in", pods, nodes, deployments, newResource("events.k8s.io", "v1", "Event", "events"))
	c.Set("custom", newResource("example.com", "v1beta1", "App", "apps"), newResource("example.com", "v1", "App", "apps"))
	return c
}

func serve(t *testing.T, c *resource.Catalog) string {
	t.Helper()
	server := httptest.NewServer(New(c, scheme.Codecs, http.NotFoundHandler()))
	t.Cleanup(server.Close)
	return server.URL
}

func client(t *testing.T, url string, legacy bool) *discovery.DiscoveryClient {
	t.Helper()
	c, err := discovery.NewDiscoveryClientForConfig(&restclient.Config{Host: url})
	if err != nil {
		t.Fatal(err)
	}
	c.UseLegacyDiscovery = legacy
	return c
}

// TestLegacyAndAggregatedAreEqual compares the resources that a client gets from the legacy documents and from the
// aggregated ones.
func TestLegacyAndAggregatedAreEqual(t *testing.T) {
	url := serve(t, catalog())
	legacyGroups, legacyResources, err := client(t, url, true).ServerGroupsAndResources()
	if err != nil {
		t.Fatal(err)
	}
	aggregatedGroups, aggregatedResources, err := client(t, url, false).ServerGroupsAndResources()
	if err != nil {
		t.Fatal(err)
	}
	names := func(groups []*metav1.APIGroup) (found []string) {
		for _, g := range groups {
			found = append(found, g.Name+" "+g.PreferredVersion.GroupVersion)
		}
		return found
	}
	want := []string{" v1", "apps apps/v1", "events.k8s.io events.k8s.io/v1", "example.com example.com/v1"}
	if got := names(legacyGroups); !slices.Equal(got, want) {
		t.Errorf("legacy groups %q", got)
	}
	if got := names(aggregatedGroups); !slices.Equal(got, want) {
		t.Errorf("aggregated groups %q", got)
	}
	for _, lists := range [][]*metav1.APIResourceList{legacyResources, aggregatedResources} { // in no order
		slices.SortFunc(lists, func(a, b *metav1.APIResourceList) int { return strings.Compare(a.GroupVersion, b.GroupVersion) })
	}
	for i, old := range legacyResources {
		slices.SortFunc(aggregatedResources[i].APIResources, func(a, b metav1.APIResource) int { return strings.Compare(a.Name, b.Name) })
		for j, r := range old.APIResources {
			r.StorageVersionHash = "" // not in the aggregated form
			other := aggregatedResources[i].APIResources[j]
			if strings.Contains(r.Name, "/") {
				other.SingularName = "" // the client repeats the parent's
			}
			if !reflect.DeepEqual(r, other) {
				t.Errorf("legacy %+v\naggregated %+v", r, other)
			}
		}
	}
}

func TestResources(t *testing.T) {
	c := client(t, serve(t, catalog()), true)
	list, err := c.ServerResourcesForGroupVersion("v1")
	if err != nil {
		t.Fatal(err)
	}
	all := metav1.Verbs{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}
	want := []metav1.APIResource{
		{Name: "nodes", SingularName: "node", Kind: "Node", Verbs: metav1.Verbs{"get", "list"}, StorageVersionHash: "hash"},
		{Name: "pods", SingularName: "pod", Namespaced: true, Kind: "Pod", Verbs: all, ShortNames: []string{"po"}, Categories: []string{"all"}, StorageVersionHash: "hash"},
		{Name: "pods/exec", Namespaced: true, Kind: "PodExecOptions", Verbs: metav1.Verbs{"create", "get"}},
		{Name: "pods/status", Namespaced: true, Kind: "Pod", Verbs: metav1.Verbs{"get", "patch", "update"}},
	}
	if !reflect.DeepEqual(list.APIResources, want) {
		t.Errorf("got %+v", list.APIResources)
	}
	list, err = c.ServerResourcesForGroupVersion("apps/v1")
	if err != nil {
		t.Fatal(err)
	}
	if scale := list.APIResources[1]; scale.Name != "deployments/scale" || scale.Group != "autoscaling" || scale.Version != "v1" || scale.Kind != "Scale" {
		t.Errorf("scale is %+v", scale)
	}
}

func TestUnknown(t *testing.T) {
	url := serve(t, catalog())
	for _, gv := range []string{"v2", "nosuch.example.com/v1", "apps/v7"} {
		if _, err := client(t, url, true).ServerResourcesForGroupVersion(gv); !errors.IsNotFound(err) {
			t.Errorf("%s: %v", gv, err)
		}
	}
}

// TestChange adds and removes a group between the requests of a client.
func TestChange(t *testing.T) {
	resources := catalog()
	c := client(t, serve(t, resources), false)
	has := func() bool {
		groups, err := c.ServerGroups()
		if err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(groups.Groups, func(g metav1.APIGroup) bool { return g.Name == "new.example.com" })
	}
	if has() {
		t.Error("the group is there before it was added")
	}
	resources.Set("more", newResource("new.example.com", "v1", "Thing", "things"))
	if !has() {
		t.Error("the group is missing")
	}
	resources.Set("more")
	if has() {
		t.Error("the group is there after it was removed")
	}
}

const aggregatedJSON = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

func get(t *testing.T, url string, header ...string) (*http.Response, []byte) {
	t.Helper()
	r, err := http.NewRequest("GET", url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, body
}

func TestNegotiation(t *testing.T) {
	url := serve(t, catalog())
	for _, test := range []struct {
		path, accept string
		status       int
		contentType  string
		body         string // its beginning
	}{
		{"/api", "", 200, "application/json", `{"kind":"APIVersions","versions":["v1"],"serverAddressByClientCIDRs":[{"clientCIDR":"0.0.0.0/0"`},
		{"/api/", "application/json", 200, "application/json", `{"kind":"APIVersions"`},
		{"/api/v1", "*/*", 200, "application/json", `{"kind":"APIResourceList","groupVersion":"v1"`},
		{"/apis", "application/yaml", 200, "application/yaml", "apiVersion: v1\n"},
		{"/apis/apps", "application/json", 200, "application/json", `{"kind":"APIGroup","apiVersion":"v1","name":"apps","versions":[{`},
		{"/apis/apps/v1", "application/json", 200, "application/json", `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"apps/v1"`},
		{"/apis/apps/v1", "application/vnd.kubernetes.protobuf", 200, "application/vnd.kubernetes.protobuf", "k8s\x00"},
		{"/apis", aggregatedJSON, 200, aggregatedJSON, `{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2"`},
		{"/api", aggregatedJSON + ",application/json", 200, aggregatedJSON, `{"kind":"APIGroupDiscoveryList"`},
		{"/apis", "application/vnd.kubernetes.protobuf;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList", 200,
			"application/vnd.kubernetes.protobuf;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList", "k8s\x00"},
		{"/apis", "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json", 200, "application/json", `{"kind":"APIGroupList"`},
		{"/apis", "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList", 406, "application/json", `{`},
		{"/apis/apps", aggregatedJSON, 406, "application/json", `{`},
		{"/apis", "text/html", 406, "application/json", `{`},
		{"/apis/nosuch", "", 404, "text/plain; charset=utf-8", "404 page not found"},
		{"/version", "", 200, "application/json", `{`},
	} {
		resp, body := get(t, url+test.path, "Accept", test.accept)
		if resp.StatusCode != test.status || resp.Header.Get("Content-Type") != test.contentType || !strings.HasPrefix(string(body), test.body) {
			t.Errorf("%s as %q: %d %q %.100s", test.path, test.accept, resp.StatusCode, resp.Header.Get("Content-Type"), body)
		}
	}
}

func TestETag(t *testing.T) {
	resources := catalog()
	url := serve(t, resources)
	resp, body := get(t, url+"/apis", "Accept", aggregatedJSON)
	var list apidiscoveryv2.APIGroupDiscoveryList
	if err := json.Unmarshal(body, &list); err != nil || len(list.Items) != 3 {
		t.Fatalf("%v: %s", err, body)
	}
	tag := resp.Header.Get("ETag")
	if resp, body := get(t, url+"/apis", "Accept", aggregatedJSON, "If-None-Match", tag); resp.StatusCode != http.StatusNotModified || len(body) > 0 {
		t.Errorf("unchanged: %d", resp.StatusCode)
	}
	resources.Set("custom")
	if resp, _ := get(t, url+"/apis", "Accept", aggregatedJSON, "If-None-Match", tag); resp.StatusCode != http.StatusOK || resp.Header.Get("ETag") == tag {
		t.Errorf("changed: %d", resp.StatusCode)
	}
}

func TestVersion(t *testing.T) {
	info, err := client(t, serve(t, catalog()), true).ServerVersion()
	if err != nil {
		t.Fatal(err)
	}
	if *info != Version() {
		t.Errorf("got %+v", info)
	}
	build, _ := debug.ReadBuildInfo()
	for _, m := range build.Deps {
		if m.Path == "k8s.io/api" && strings.Replace(m.Version, "v0.", "1.", 1) != resource.Release {
			t.Errorf("built with %s of k8s.io/api, but the version is %s", m.Version, resource.Release)
		}
	}
}

// FuzzAccept requests any path with any Accept header, which must succeed or return 404 or 406.
func FuzzAccept(f *testing.F) {
	for _, seed := range []string{"", "*/*", aggregatedJSON, "application/json;q=0.5,application/yaml", "a/b;;=", "application/*;as=Table"} {
		f.Add("/apis", seed)
	}
	handler := New(catalog(), scheme.Codecs, http.NotFoundHandler())
	f.Fuzz(func(t *testing.T, path, accept string) {
		r := httptest.NewRequest("GET", "/", nil)
		r.URL.Path = path
		r.Header.Set("Accept", accept)
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		switch w.Code {
		case http.StatusOK, http.StatusNotFound:
		case http.StatusNotAcceptable:
			var status metav1.Status
			if err := json.Unmarshal(w.Body.Bytes(), &status); err != nil || status.Reason != metav1.StatusReasonNotAcceptable {
				t.Errorf("%v: %s", err, w.Body)
			}
		default:
			t.Errorf("%d: %s", w.Code, w.Body)
		}
	})
}

// documented is the OpenAPI of a custom resource.
type documented struct{ resource.OpenAPI }

// TestOrderOfCustomResources checks that verbs and subresources of custom resources have the order
// that they have in kube-apiserver.
func TestOrderOfCustomResources(t *testing.T) {
	app := newResource("example.com", "v1", "App", "apps")
	app.OpenAPI = documented{}
	addSubresource(app, "status", app.Kind, readWrite{})
	addSubresource(app, "scale", schema.GroupVersionKind{Group: "autoscaling", Version: "v1", Kind: "Scale"}, readWrite{})
	c := &resource.Catalog{}
	c.Set("custom", app)
	list, err := client(t, serve(t, c), true).ServerResourcesForGroupVersion("example.com/v1")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, r := range list.APIResources {
		names = append(names, r.Name)
	}
	if got, want := strings.Join(names, " "), "apps apps/status apps/scale"; got != want {
		t.Errorf("resources: %s, want %s", got, want)
	}
	const verbs = "delete deletecollection get list patch create update watch"
	if got := strings.Join(list.APIResources[0].Verbs, " "); got != verbs {
		t.Errorf("verbs: %s, want %s", got, verbs)
	}
}
