// Package apiserver is the Kubernetes API over a revisioned store.
//
// A request passes the stages of the pipeline, in the order in which pipeline.go lists them, and then
// reaches the handler of its path: discovery, the OpenAPI documents, health, or a verb of a resource.
// What can be served is in one catalog: the built-in kinds, and the custom ones as they come and go.
package apiserver

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"

	upstream "k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/endpoints/request"

	"flyball.dev/apiserver/admission"
	"flyball.dev/apiserver/authz"
	"flyball.dev/apiserver/crd"
	"flyball.dev/apiserver/discovery"
	"flyball.dev/apiserver/endpoints"
	"flyball.dev/apiserver/kinds"
	"flyball.dev/apiserver/openapi"
	"flyball.dev/apiserver/resource"
	kindschema "flyball.dev/apiserver/schema"
	"flyball.dev/apiserver/store"
	"flyball.dev/storage"

	"flyball.dev/apiserver/builtin"
)

// maxRequestBody is the largest body that a request may have, as in a real API server.
const maxRequestBody = 3 << 20

// Options say what a server stands on. Storage, Authenticator and Authorizer must be set.
type Options struct {
	// Storage keeps the objects. The server does not close it.
	Storage storage.Store
	// Authenticator names the user of a request; it always finds one or fails.
	Authenticator authenticator.Request
	// Authorizer decides what the user may do.
	Authorizer authz.Authorizer
	// Admission chooses among the admission plugins.
	Admission admission.Options
	// ReadyChecks are what /readyz reports beside the server itself.
	ReadyChecks []ReadyCheck
	// MaxRequestsInFlight is how many requests that only read may be under way at once, and
	// MaxMutatingRequestsInFlight how many others; by default 400 and 200, and without a limit if it
	// is negative. What comes above that is answered with 429 Too Many Requests, but for members of
	// system:masters. Watches and other long-running requests do not count.
	MaxRequestsInFlight, MaxMutatingRequestsInFlight int
}

// Server answers requests. It is an [http.Handler], and safe for concurrent use.
type Server struct {
	options   Options
	catalog   *resource.Catalog
	custom    *crd.Kinds
	objects   *objects
	admission upstream.Interface
	handler   http.Handler
	ready     atomic.Bool
	stopping  context.Context
	stop      context.CancelFunc
	work      sync.WaitGroup // what runs until stopping is done
}

// New returns a server that serves what is in its storage, with the namespaces and the priority classes
// that every cluster has. It starts no goroutine that outlives [Server.Stop].
func New(o Options) (*Server, error) {
	s := &Server{options: o, catalog: &resource.Catalog{}}
	s.objects = &objects{server: s}
	s.stopping, s.stop = context.WithCancel(context.Background())
	resources, err := kinds.Resources(kinds.Options{
		Scheme:              builtin.Scheme(),
		Codecs:              builtin.Codecs(),
		Storage:             store.RESTOptions(o.Storage, builtin.StorageCodec),
		TypeConverter:       kindschema.TypeConverter(builtin.Scheme()),
		Authorizer:          o.Authorizer,
		MaxRequestBodyBytes: maxRequestBody,
	}, append(builtin.All(), builtin.Reviews(o.Authenticator, o.Authorizer)...))
	if err != nil {
		return nil, fmt.Errorf("built-in kinds: %w", err)
	}
	s.catalog.Set("built-in", resources...)
	if s.custom, err = crd.New(crd.Options{
		Storage:             o.Storage,
		Catalog:             s.catalog,
		Authorizer:          o.Authorizer,
		MaxRequestBodyBytes: maxRequestBody,
	}); err != nil {
		return nil, fmt.Errorf("custom kinds: %w", err)
	}
	if s.admission, err = admission.New(o.Admission, s.objects); err == nil {
		err = s.bootstrap()
	}
	if err != nil {
		s.Stop()
		return nil, err
	}
	s.handler = chain(s.pipeline(), s.routes())
	s.ready.Store(true)
	return s, nil
}

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(w, r) }

// Stop ends all watches and the server's own work. Requests that are under way finish.
func (s *Server) Stop() {
	s.ready.Store(false)
	s.stop()
	s.work.Wait()
	s.objects.close()
	if s.custom != nil {
		s.custom.Close()
	}
}

// routes sends a request to what its path names.
func (s *Server) routes() http.Handler {
	notFound := http.HandlerFunc(http.NotFound)
	health := &health{ready: &s.ready, checks: s.options.ReadyChecks}
	mux := http.NewServeMux()
	described := discovery.New(s.catalog, builtin.Codecs())
	for _, path := range []string{"/api", "/api/{version}", "/apis", "/apis/{group}", "/apis/{group}/{version}", "/version"} {
		mux.Handle("GET "+path, described)
		mux.Handle("GET "+path+"/{$}", described)
	}
	mux.Handle("GET /openapi/", openapi.New(s.catalog, builtin.Scheme()))
	for _, path := range []string{"/healthz", "/livez", "/readyz"} {
		mux.Handle("GET "+path, health)
		mux.Handle("GET "+path+"/", health)
	}
	mux.Handle("/", notFound)
	resources := endpoints.New(s.catalog, s.admission, builtin.Codecs(), notFound)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if info, ok := request.RequestInfoFrom(r.Context()); ok && info.IsResourceRequest {
			resources.ServeHTTP(w, r)
			return
		}
		mux.ServeHTTP(w, r)
	})
}
