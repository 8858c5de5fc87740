package aggregator_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"flyball.dev/controlplane/controlplanetest"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	aggregatorclient "k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset"

	"flyball.dev/controlplane"
)

var tides = schema.GroupVersionResource{Group: "sea.example.com", Version: "v1", Resource: "tides"}

// extension is an extension API server that serves tides. It trusts only the API server of the
// control plane about who the user is.
type extension struct {
	server *httptest.Server

	mu    sync.Mutex
	users []string // of the requests for tides
}

// newExtension starts an extension API server that verifies client certificates as the ConfigMap
// says.
func newExtension(t *testing.T, client kubernetes.Interface, listener net.Listener) *extension {
	t.Helper()
	authentication, err := client.CoreV1().ConfigMaps("kube-system").Get(t.Context(), "extension-apiserver-authentication", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM([]byte(authentication.Data["requestheader-client-ca-file"])) || !strings.Contains(authentication.Data["client-ca-file"], "BEGIN CERTIFICATE") {
		t.Fatalf("the ConfigMap has %v", authentication.Data)
	}
	var names []string
	if err := json.Unmarshal([]byte(authentication.Data["requestheader-allowed-names"]), &names); err != nil {
		t.Fatal(err)
	}
	e := &extension{}
	e.server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !slices.Contains(names, r.TLS.VerifiedChains[0][0].Subject.CommonName) || r.Header.Get("Authorization") != "" {
			http.Error(w, "not the API server", http.StatusUnauthorized)
			return
		}
		e.serve(w, r)
	}))
	e.server.Listener.Close()
	e.server.Listener = listener
	e.server.TLS = &tls.Config{ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert}
	e.server.Config.ErrorLog = log.New(io.Discard, "", 0) // of the client that does not trust it
	e.server.StartTLS()
	t.Cleanup(e.server.Close)
	return e
}

func (e *extension) serve(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	const tide = `{"apiVersion":"sea.example.com/v1","kind":"Tide","metadata":{"name":"high","namespace":"default","resourceVersion":"1"}}`
	switch {
	case r.URL.Path == "/apis/sea.example.com/v1":
		fmt.Fprint(w, `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"sea.example.com/v1","resources":[
			{"name":"tides","singularName":"tide","namespaced":true,"kind":"Tide","verbs":["get","list","watch"],"shortNames":["td"]},
			{"name":"tides/status","singularName":"","namespaced":true,"kind":"Tide","verbs":["get"]}]}`)
	case r.URL.Path == "/openapi/v3/apis/sea.example.com/v1":
		fmt.Fprint(w, `{"openapi":"3.0.0","info":{"title":"Sea","version":"1"},"paths":{},"components":{"schemas":{"com.example.sea.Tide":{"type":"object","description":"The water."}}}}`)
	case r.URL.Path == "/openapi/v2":
		fmt.Fprint(w, `{"swagger":"2.0","info":{"title":"Sea","version":"1"},"paths":{
			"/apis/sea.example.com/v1/namespaces/{namespace}/tides":{"get":{"responses":{"200":{"description":"OK","schema":{"$ref":"#/definitions/com.example.sea.Tide"}}}}},
			"/apis/apps/v1/deployments":{"get":{"responses":{"200":{"description":"not of the group","schema":{"$ref":"#/definitions/com.example.sea.Other"}}}}}},
			"definitions":{
				"com.example.sea.Other":{"type":"object"},
				"com.example.sea.Tide":{"type":"object","properties":{"metadata":{"$ref":"#/definitions/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"}}},
				"io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta":{"type":"object","description":"An older one."}}}`)
	case r.URL.Query().Get("watch") != "":
		fmt.Fprintf(w, `{"type":"ADDED","object":%s}`+"\n", tide)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	case strings.HasSuffix(r.URL.Path, "/tides"):
		e.mu.Lock()
		e.users = append(e.users, r.Header.Get("X-Remote-User")+" "+strings.Join(r.Header["X-Remote-Group"], ","))
		e.mu.Unlock()
		fmt.Fprintf(w, `{"kind":"TideList","apiVersion":"sea.example.com/v1","metadata":{"resourceVersion":"1"},"items":[%s]}`, tide)
	default:
		http.NotFound(w, r)
	}
}

// apiService returns the APIService of an extension API server.
func (e *extension) apiService() *apiregistrationv1.APIService {
	return &apiregistrationv1.APIService{
		ObjectMeta: metav1.ObjectMeta{Name: "v1.sea.example.com"},
		Spec: apiregistrationv1.APIServiceSpec{
			Group: "sea.example.com", Version: "v1", GroupPriorityMinimum: 100, VersionPriority: 10,
			Service:  &apiregistrationv1.ServiceReference{Namespace: "default", Name: "example"},
			CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: e.server.Certificate().Raw}),
		},
	}
}

// service returns the Service of an extension API server, which is on loopback. Its certificate is
// not for the name of the Service.
func (e *extension) service() *corev1.Service {
	_, port, _ := net.SplitHostPort(e.server.Listener.Addr().String())
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "example", Annotations: map[string]string{"flyball.dev/loopback-port": port}},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 443}}},
	}
}

// TestAPIServices registers an extension API server, uses it and makes it unavailable.
func TestAPIServices(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	plane := controlplanetest.Start(t, controlplane.Options{WithoutControllers: true, Tokens: map[string]*user.DefaultInfo{"secret": {Name: "ann", Groups: []string{"staff"}}},
		LoopbackPorts: []uint16{uint16(listener.Addr().(*net.TCPAddr).Port)}})
	cfg := plane.Config()
	client, ctx := controlplanetest.ClientFor(t, cfg), t.Context()
	registrations, err := aggregatorclient.NewForConfig(plane.Config())
	if err != nil {
		t.Fatal(err)
	}
	apiServices := registrations.ApiregistrationV1().APIServices()
	e := newExtension(t, client, listener)
	if _, err := apiServices.Create(ctx, e.apiService(), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	await := func(status apiregistrationv1.ConditionStatus, reason, message string) {
		t.Helper()
		awaitCondition(t, apiServices.Watch, status, reason, message)
	}
	path := "/apis/sea.example.com/v1/namespaces/default/tides"
	get := func(token, path string) (int, string) {
		cfg := plane.Config()
		cfg.BearerToken = token
		code, body := controlplanetest.Sender(t, cfg)(http.MethodGet, path, "", "")
		return code, string(body)
	}

	await(apiregistrationv1.ConditionFalse, "ServiceNotFound", `service/example in "default" is not present`)
	if code, body := get("", path); code != http.StatusServiceUnavailable || body != "service unavailable\n" {
		t.Errorf("without a service: %d %s", code, body)
	}
	service := e.service()
	annotations := service.Annotations
	service.Annotations = nil
	if service, err = client.CoreV1().Services("default").Create(ctx, service, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	await(apiregistrationv1.ConditionFalse, "EndpointsNotFound", `cannot find endpointslices for service/example in "default"`)
	service.Annotations = annotations
	if service, err = client.CoreV1().Services("default").Update(ctx, service, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	await(apiregistrationv1.ConditionFalse, "FailedDiscoveryCheck", "example.default.svc")
	insecure := []byte(`{"spec":{"caBundle":null,"insecureSkipTLSVerify":true}}`)
	if _, err := apiServices.Patch(ctx, "v1.sea.example.com", "application/merge-patch+json", insecure, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	await(apiregistrationv1.ConditionTrue, "Passed", "all checks passed")

	list, err := controlplanetest.Must[*dynamic.DynamicClient](t)(dynamic.NewForConfig(plane.Config())).Resource(tides).Namespace("default").List(ctx, metav1.ListOptions{})
	if err != nil || len(list.Items) != 1 || list.Items[0].GetName() != "high" {
		t.Errorf("list: %v, %v", list, err)
	}
	tide, err := controlplanetest.Must[*dynamic.DynamicClient](t)(dynamic.NewForConfig(plane.Config())).Resource(tides).Namespace("default").Watch(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if event := <-tide.ResultChan(); event.Type != "ADDED" {
		t.Errorf("watch: %+v", event)
	}
	if code, _ := get("secret", path); code != http.StatusForbidden {
		t.Errorf("a user without a role: %d", code)
	}
	controlplanetest.GrantCluster(t, client, "tides", "ann", controlplanetest.PolicyRule("list", "sea.example.com", "tides"))
	if code, body := get("secret", path); code != http.StatusOK {
		t.Errorf("a user with a role: %d %s", code, body)
	}
	e.mu.Lock()
	if want := []string{"flyball-admin system:masters,system:authenticated", "ann staff,system:authenticated"}; !slices.Equal(e.users, want) {
		t.Errorf("the users were %q, want %q", e.users, want)
	}
	e.mu.Unlock()

	for _, legacy := range []bool{false, true} {
		documents, err := discovery.NewDiscoveryClientForConfig(plane.Config())
		if err != nil {
			t.Fatal(err)
		}
		documents.UseLegacyDiscovery = legacy
		_, resources, err := documents.ServerGroupsAndResources()
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(resources, func(l *metav1.APIResourceList) bool {
			return l.GroupVersion == "sea.example.com/v1" && len(l.APIResources) == 2 && l.APIResources[0].Kind == "Tide" && l.APIResources[0].ShortNames[0] == "td"
		}) {
			t.Errorf("discovery, legacy %v, has no tides", legacy)
		}
	}
	if code, body := get("", "/openapi/v3/apis/sea.example.com/v1"); code != http.StatusOK || !strings.Contains(body, "The water.") {
		t.Errorf("OpenAPI: %d %.200s", code, body)
	}
	checkTidesDocument(t, func() (int, string) { return get("", "/openapi/v2") })

	tide.Stop()
	if err := client.CoreV1().Services("default").Delete(ctx, service.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	await(apiregistrationv1.ConditionFalse, "ServiceNotFound", `service/example in "default" is not present`)
	if code, _ := get("", path); code != http.StatusServiceUnavailable {
		t.Errorf("unavailable: %d", code)
	}
	for _, legacy := range []bool{false, true} {
		documents := controlplanetest.Must[*discovery.DiscoveryClient](t)(discovery.NewDiscoveryClientForConfig(plane.Config()))
		documents.UseLegacyDiscovery = legacy
		_, _, err := documents.ServerGroupsAndResources()
		if failed, _ := discovery.GroupDiscoveryFailedErrorGroups(err); len(failed) != 1 || failed[tides.GroupVersion()] == nil {
			t.Errorf("discovery, legacy %v, without the service: %v", legacy, err)
		}
	}
	if err := apiServices.Delete(ctx, "v1.sea.example.com", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if local, err := apiServices.Get(ctx, "v1.apps", metav1.GetOptions{}); err != nil || local.Status.Conditions[0].Reason != "Local" {
		t.Errorf("local: %v, %v", local, err)
	}
}

// checkTidesDocument checks that the version 2 document contains the extension API server's document about its group. A
// definition that exists in another version is renamed.
func checkTidesDocument(t *testing.T, get func() (int, string)) {
	t.Helper()
	type definition struct {
		Description string
		Properties  map[string]struct {
			Ref string `json:"$ref"`
		}
	}
	var document struct {
		Paths       map[string]struct{ Get struct{ Description string } }
		Definitions map[string]definition
	}
	code, body := get()
	if err := json.Unmarshal([]byte(body), &document); err != nil || code != http.StatusOK {
		t.Fatalf("OpenAPI v2: %d %.200s", code, body)
	}
	const metadata = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
	_, tides := document.Paths["/apis/sea.example.com/v1/namespaces/{namespace}/tides"]
	_, other := document.Definitions["com.example.sea.Other"]
	tide := document.Definitions["com.example.sea.Tide"]
	if !tides || other || tide.Properties["metadata"].Ref != "#/definitions/"+metadata+"_v2" ||
		document.Definitions[metadata+"_v2"].Description != "An older one." || document.Definitions[metadata].Description == "An older one." ||
		document.Paths["/apis/apps/v1/deployments"].Get.Description == "not of the group" || document.Paths["/apis/apps/v1/deployments"].Get.Description == "" {
		t.Errorf("OpenAPI v2: tides %v, other %v, %+v", tides, other, tide)
	}
}

// awaitCondition waits until the APIService of tides has a condition.
func awaitCondition(t *testing.T, open func(context.Context, metav1.ListOptions) (watch.Interface, error), status apiregistrationv1.ConditionStatus, reason, message string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	w, err := open(ctx, metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", "v1.sea.example.com").String()})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	var last apiregistrationv1.APIServiceCondition
	for event := range w.ResultChan() {
		for _, last = range event.Object.(*apiregistrationv1.APIService).Status.Conditions {
			if last.Status == status && last.Reason == reason && strings.Contains(last.Message, message) {
				return
			}
		}
	}
	t.Fatalf("the condition is %+v, want %s, %s: %s", last, status, reason, message)
}

// TestNamespaceWaitsForDiscovery: a namespace may have objects of an extension API server that does not
// answer, so it stays until that can be asked, or its APIService goes.
func TestNamespaceWaitsForDiscovery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plane := controlplanetest.Start(t, controlplane.Options{})
		client, ctx := controlplanetest.ClientFor(t, plane.Config()), t.Context()
		apiServices := controlplanetest.Must[*aggregatorclient.Clientset](t)(aggregatorclient.NewForConfig(plane.Config())).ApiregistrationV1().APIServices()
		if _, err := apiServices.Create(ctx, &apiregistrationv1.APIService{
			ObjectMeta: metav1.ObjectMeta{Name: "v1.sea.example.com"},
			Spec: apiregistrationv1.APIServiceSpec{Group: "sea.example.com", Version: "v1", GroupPriorityMinimum: 100, VersionPriority: 10,
				Service: &apiregistrationv1.ServiceReference{Namespace: "default", Name: "nobody"}},
		}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		awaitCondition(t, apiServices.Watch, apiregistrationv1.ConditionFalse, "ServiceNotFound", "nobody")
		_, resources, err := client.Discovery().ServerGroupsAndResources()
		if failed, ok := discovery.GroupDiscoveryFailedErrorGroups(err); !ok || len(failed) != 1 || failed[tides.GroupVersion()] == nil || len(resources) < 20 {
			t.Errorf("discovery has %d lists, %v", len(resources), err)
		}
		groups, err := client.Discovery().ServerGroups()
		if err != nil || !slices.ContainsFunc(groups.Groups, func(g metav1.APIGroup) bool { return g.Name == "sea.example.com" }) {
			t.Errorf("discovery has the groups %v, %v", groups, err)
		}

		// Definitions come and go during the requests.
		if code, body := controlplanetest.Sender(t, plane.Config())(http.MethodPost, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "application/json", `{
			"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"boats.land.example.com"},
			"spec":{"group":"land.example.com","scope":"Namespaced","names":{"plural":"boats","kind":"Boat"},
				"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}}}]}}`); code != http.StatusCreated {
			t.Fatalf("%d %s", code, body)
		}
		if _, err := client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "doomed"}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		boats := controlplanetest.Must[*dynamic.DynamicClient](t)(dynamic.NewForConfig(plane.Config())).Resource(schema.GroupVersionResource{Group: "land.example.com", Version: "v1", Resource: "boats"}).Namespace("doomed")
		boat := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "land.example.com/v1", "kind": "Boat", "metadata": map[string]any{"name": "one"}}}
		if _, err := boats.Create(ctx, boat, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := client.CoreV1().Namespaces().Delete(ctx, "doomed", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Hour)
		if list, err := boats.List(ctx, metav1.ListOptions{}); err != nil || len(list.Items) != 0 {
			t.Errorf("what can be discovered was not deleted: %v, %v", list, err)
		}
		ns, err := client.CoreV1().Namespaces().Get(ctx, "doomed", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(ns.Status.Conditions, func(c corev1.NamespaceCondition) bool {
			return c.Type == corev1.NamespaceDeletionDiscoveryFailure && c.Status == corev1.ConditionTrue && c.Reason == "DiscoveryFailed" &&
				c.Message == "Discovery failed for some groups, 1 failing: unable to retrieve the complete list of server APIs: sea.example.com/v1: stale GroupVersion discovery: sea.example.com/v1"
		}) {
			t.Errorf("the conditions are %+v", ns.Status.Conditions)
		}
		const path = "/apis/sea.example.com/v1/namespaces/default/tides"
		if code, body := controlplanetest.Sender(t, plane.Config())(http.MethodGet, path, "", ""); code != http.StatusServiceUnavailable {
			t.Errorf("unavailable: %d %s", code, body)
		}
		if err := apiServices.Delete(ctx, "v1.sea.example.com", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if code, body := controlplanetest.Sender(t, plane.Config())(http.MethodGet, path, "", ""); code != http.StatusNotFound {
			t.Errorf("deleted: %d %s", code, body)
		}
		<-time.After(time.Second)
		if _, err := client.CoreV1().Namespaces().Get(ctx, "doomed", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("the namespace is still there: %v", err)
		}
	})
}
