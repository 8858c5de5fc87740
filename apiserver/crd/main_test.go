package crd_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/pkg/endpoints/filters"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"flyball.dev/apiserver/crd"
	"flyball.dev/apiserver/endpoints"
	"flyball.dev/apiserver/resource"
	"flyball.dev/apiserver/store"
	"flyball.dev/storage"
	"flyball.dev/storage/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// server serves custom kinds with the handlers of k8s.io/apiserver, without a socket.
type server struct {
	t       testing.TB
	backend storage.Store
	catalog *resource.Catalog
	kinds   *crd.Kinds
	handler http.Handler
	client  dynamic.Interface
}

// newServer starts a server over an empty store and an empty catalog.
func newServer(t testing.TB) *server {
	t.Helper()
	return newServerOn(t, memory.New(memory.Options{}), &resource.Catalog{})
}

// newServerOn is open with a store that is closed when the test ends.
func newServerOn(t testing.TB, backend storage.Store, catalog *resource.Catalog) *server {
	t.Helper()
	t.Cleanup(func() {
		err := store.Verify(context.Background(), backend)
		if err != nil && !strings.Contains(err.Error(), "conversion webhook") { // that has gone
			t.Error(err)
		}
		backend.Close()
	})
	return open(t, backend, catalog)
}

// open starts a server over a store and a catalog that may not be empty.
func open(t testing.TB, backend storage.Store, catalog *resource.Catalog) *server {
	t.Helper()
	k, err := crd.New(crd.Options{
		Storage:             backend,
		Catalog:             catalog,
		Authorizer:          authorizerfactory.NewAlwaysAllowAuthorizer(),
		MaxRequestBodyBytes: 3 << 20,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.Close)
	s := &server{t: t, backend: backend, catalog: catalog, kinds: k}
	s.handler = withContext(endpoints.New(catalog, func(schema.GroupResource) admission.Interface { return admission.NewChainHandler() }, errorCodecs(), http.HandlerFunc(http.NotFound), endpoints.Options{}))
	s.client, err = dynamic.NewForConfig(&rest.Config{Host: "http://test", Transport: inProcess{s.handler}, QPS: -1, WarningHandler: rest.NoWarnings{}})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// errorCodecs are the encodings of errors about requests.
func errorCodecs() serializer.CodecFactory {
	s := runtime.NewScheme()
	metav1.AddToGroupVersion(s, schema.GroupVersion{Version: "v1"})
	s.AddUnversionedTypes(schema.GroupVersion{Version: "v1"}, &metav1.Status{})
	return serializer.NewCodecFactory(s)
}

// withContext adds the values that the handlers need to the request context.
func withContext(next http.Handler) http.Handler {
	infos := &request.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")}
	return filters.WithWarningRecorder(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		info, err := infos.NewRequestInfo(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		ctx := audit.WithAuditContext(request.WithReceivedTimestamp(r.Context(), time.Now()))
		ctx = request.WithRequestInfo(ctx, info)
		ctx = request.WithUser(ctx, &user.DefaultInfo{Name: "tester"})
		next.ServeHTTP(w, r.WithContext(ctx))
	}))
}

// inProcess is a RoundTripper that serves each request on a goroutine of its own.
type inProcess struct{ handler http.Handler }

func (p inProcess) RoundTrip(r *http.Request) (*http.Response, error) {
	body, answer := io.Pipe()
	w := &writer{Writer: answer, header: http.Header{}, begun: make(chan int, 1)}
	ctx, cancel := context.WithCancel(r.Context())
	go func() {
		defer answer.Close()
		defer cancel()
		req := r.Clone(ctx)
		if req.Body == nil {
			req.Body = http.NoBody
		}
		req.RequestURI = r.URL.RequestURI()
		p.handler.ServeHTTP(w, req)
		w.WriteHeader(http.StatusOK)
	}()
	stop := context.AfterFunc(r.Context(), func() { body.CloseWithError(r.Context().Err()) })
	return &http.Response{StatusCode: <-w.begun, Header: w.sent, Body: closer{body, func() { stop(); cancel() }}, Request: r,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, ContentLength: -1}, nil
}

// writer is the ResponseWriter of inProcess, which writes to a pipe.
type writer struct {
	io.Writer
	header, sent http.Header
	begun        chan int
}

func (w *writer) Header() http.Header { return w.header }
func (w *writer) Flush()              { w.WriteHeader(http.StatusOK) }

func (w *writer) WriteHeader(code int) {
	if w.sent == nil {
		w.sent = w.header.Clone()
		w.begun <- code
	}
}

func (w *writer) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.Writer.Write(p)
}

// closer is the body of a response, which ends the request when it is closed.
type closer struct {
	*io.PipeReader
	end func()
}

func (c closer) Close() error {
	c.end()
	return c.PipeReader.Close()
}

// answer is the response to a raw request.
type answer struct {
	code     int
	object   map[string]any
	warnings []string
	body     string
}

func (a answer) status() *apierrors.StatusError {
	e := &apierrors.StatusError{}
	if err := json.Unmarshal([]byte(a.body), &e.ErrStatus); err != nil {
		return nil
	}
	return e
}

// do sends a request; body is YAML or JSON.
func (s *server) do(method, path, body string, header ...string) answer {
	s.t.Helper()
	data := []byte(body)
	if !json.Valid(data) && body != "" {
		var err error
		if data, err = yaml.YAMLToJSON(data); err != nil {
			s.t.Fatal(err)
		}
	}
	r, err := http.NewRequestWithContext(s.t.Context(), method, "http://test"+path, bytes.NewReader(data))
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	response, err := inProcess{s.handler}.RoundTrip(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer response.Body.Close()
	read, err := io.ReadAll(response.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	a := answer{code: response.StatusCode, body: string(read), warnings: response.Header.Values("Warning")}
	_ = json.Unmarshal(read, &a.object)
	return a
}

// want sends a request, and fails unless the response has the code.
func (s *server) want(code int, method, path, body string, header ...string) answer {
	s.t.Helper()
	a := s.do(method, path, body, header...)
	if a.code != code {
		s.t.Fatalf("%s %s: got %d, want %d: %s", method, path, a.code, code, a.body)
	}
	return a
}

// refused sends a request that must fail with a code and a message that contains all parts.
func (s *server) refused(code int, parts []string, method, path, body string, header ...string) {
	s.t.Helper()
	a := s.want(code, method, path, body, header...)
	message := a.body
	if e := a.status(); e != nil {
		message = e.Error()
	}
	for _, part := range parts {
		if !strings.Contains(message, part) {
			s.t.Errorf("%s %s: message %q does not contain %q", method, path, message, part)
		}
	}
}

const definitionsPath = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

// define creates a definition.
func (s *server) define(body string) *unstructured.Unstructured {
	s.t.Helper()
	return &unstructured.Unstructured{Object: s.want(201, "POST", definitionsPath, body).object}
}

// condition returns "STATUS REASON" of a condition.
func condition(crd *unstructured.Unstructured, name string) string {
	conditions, _, _ := unstructured.NestedSlice(crd.Object, "status", "conditions")
	for _, c := range conditions {
		if c := c.(map[string]any); c["type"] == name {
			return c["status"].(string) + " " + c["reason"].(string)
		}
	}
	return ""
}

// field reads a nested value, nil if there is none.
func field(object map[string]any, path ...string) any {
	v, _, _ := unstructured.NestedFieldNoCopy(object, path...)
	return v
}
