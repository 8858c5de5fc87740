// Package apiserver is the Kubernetes API over a revisioned store.
//
// A request passes the filters of the pipeline, in the order of pipeline.go, and then the handler
// of its path: discovery, OpenAPI, health, or a verb of a resource. The catalog has the resources
// that are served: those of the built-in kinds, and of the custom ones as they are created and
// deleted.
package apiserver

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	upstream "k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/endpoints/metrics"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"

	"flyball.dev/apiserver/admission"
	"flyball.dev/apiserver/auditlog"
	"flyball.dev/apiserver/authn"
	"flyball.dev/apiserver/authz"
	"flyball.dev/apiserver/authz/node"
	"flyball.dev/apiserver/authz/rbac"
	"flyball.dev/apiserver/builtin"
	"flyball.dev/apiserver/crd"
	"flyball.dev/apiserver/discovery"
	"flyball.dev/apiserver/endpoints"
	"flyball.dev/apiserver/kinds"
	"flyball.dev/apiserver/kinds/core"
	"flyball.dev/apiserver/openapi"
	"flyball.dev/apiserver/resource"
	kindschema "flyball.dev/apiserver/schema"
	"flyball.dev/apiserver/serviceaccount"
	"flyball.dev/apiserver/store"
	"flyball.dev/apiserver/webhook"
	"flyball.dev/storage"
)

// maxRequestBody is the limit of a request's body in bytes, as in kube-apiserver.
const maxRequestBody = 3 << 20

// Options configure a [Server]. Storage must be set.
type Options struct {
	// Storage keeps the objects. The server does not close it.
	Storage storage.Store
	// Authentication configures the authenticators besides those of service accounts' and
	// bootstrap tokens, which the server adds.
	Authentication authn.Config
	// AuthorizationMode are authorization modes, separated by commas, by default [authz.ModeRBAC]; see
	// [authz.ParseModes]. A request is allowed if one of them allows it.
	AuthorizationMode string
	// Objects are created at the start, without admission and validation, if they do not exist, beside
	// those that every cluster has. Roles and bindings among them are created in the mode RBAC only, and
	// get back what they lack.
	Objects []kinds.Object
	// Admission chooses among the admission plugins. With the authorization mode Node,
	// [admission.NodeRestriction] runs unless it is disabled by its name.
	Admission admission.Options
	// Warnings, if not nil, returns warnings for a write of an object of a built-in kind, beside those
	// of the server itself. old is nil on create. It must be safe for concurrent use, and change
	// neither object.
	Warnings func(obj, old runtime.Object) []string
	// Simulated, if not nil, reports whether nothing runs in a pod. A webhook or an extension API server
	// is never called at the address of such a pod.
	Simulated func(*corev1.Pod) bool
	// ReadyChecks are checks of /readyz besides the server's own.
	ReadyChecks []ReadyCheck
	// MaxRequestsInFlight limits concurrent read-only requests, and MaxMutatingRequestsInFlight all
	// others. They are 400 and 200 by default; a negative value is no limit. Requests above a limit
	// get 429 Too Many Requests, unless the user is a member of system:masters or the context is one of
	// [WithoutLimit]. Watches and other long-running requests do not count.
	MaxRequestsInFlight, MaxMutatingRequestsInFlight int
	// Audit configures the audit log. By default there is none.
	Audit auditlog.Options
	// Aggregation configures the requests to extension API servers.
	Aggregation Aggregation
	// DialWebhook connects to webhooks and extension API servers, by default over TCP. It must be safe
	// for concurrent use.
	DialWebhook webhook.DialFunc
	// ServiceAccounts configures the tokens of service accounts.
	ServiceAccounts serviceaccount.Options
	// ServiceNetwork is the range of cluster IPs, of IPv4 and of 8 addresses at least, by default
	// 10.96.0.0/12.
	ServiceNetwork netip.Prefix
	// DeletionDelay is the time for which an object with a deletion timestamp is kept when it could be
	// removed at once; see [store.Config]. It must be shorter than [RequestTimeout].
	DeletionDelay time.Duration
	// WithoutFastPath serves every request with the handlers of k8s.io/apiserver, also those that the server
	// serves with shorter code of its own. The responses are the same.
	WithoutFastPath bool
}

// complete sets the defaults and validates what the server does not elsewhere.
func (o *Options) complete() error {
	if !o.ServiceNetwork.IsValid() {
		o.ServiceNetwork = core.DefaultServiceNetwork
	}
	o.ServiceNetwork = o.ServiceNetwork.Masked()
	switch {
	case o.DeletionDelay >= RequestTimeout:
		return fmt.Errorf("the deletion delay of %s must be shorter than a request may take, %s", o.DeletionDelay, RequestTimeout)
	case !o.ServiceNetwork.Addr().Is4():
		return fmt.Errorf("the range of cluster IPs %s is not of IPv4", o.ServiceNetwork)
	case o.ServiceNetwork.Bits() > 29:
		return fmt.Errorf("the range of cluster IPs %s must have at least 8 addresses", o.ServiceNetwork)
	}
	return nil
}

// Server serves the API. It is an [http.Handler], and safe for concurrent use.
type Server struct {
	options   Options
	modes     []string // of authorization
	users     authenticator.Request
	tokens    *serviceaccount.Tokens
	access    authz.Authorizer
	catalog   *resource.Catalog
	custom    *crd.Kinds
	objects   *objects
	admission upstream.Interface
	webhooks  *webhook.Dialer
	handler   http.Handler
	health    *health
	audit     *auditlog.Log // nil for none
	reading   *limiter
	mutating  *limiter
	ready     atomic.Bool
	stopping  context.Context
	stop      context.CancelFunc
	work      sync.WaitGroup // goroutines that run until stopping is done
	gate      gate
	onReset   []func()

	registrations registrations
}

// New returns a server of the objects in the storage. It creates the namespaces, the priority classes
// and, in the mode RBAC, the roles and bindings that every cluster has. No goroutine that it starts
// outlives [Server.Stop].
func New(o Options) (*Server, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	s := &Server{options: o, catalog: &resource.Catalog{}, webhooks: webhook.NewDialer(o.DialWebhook)}
	s.objects = &objects{server: s}
	services := webhook.Services{Storage: s.objects.Storage, Simulated: o.Simulated}
	s.stopping, s.stop = context.WithCancel(context.Background())
	guards, err := s.setUpAuthorization()
	if err == nil {
		s.audit, err = auditlog.New(o.Audit)
	}
	if err != nil {
		return nil, err
	}
	if s.tokens, err = serviceaccount.New(s.objects, o.ServiceAccounts); err != nil {
		return nil, fmt.Errorf("the key of service accounts: %w", err)
	}
	o.Authentication.ServiceAccounts = s.tokens
	o.Authentication.Bootstrap = authn.BootstrapTokens{Objects: s.objects}
	o.Authentication.Audiences = s.tokens.Audiences()
	s.users = authn.New(o.Authentication)
	require := s.requirement()
	if err := s.addBuiltInResources(guards, require); err != nil {
		return nil, fmt.Errorf("built-in kinds: %w", err)
	}
	if s.custom, err = crd.New(crd.Options{
		Storage:               o.Storage,
		Catalog:               s.catalog,
		Authorizer:            s.access,
		MaxRequestBodyBytes:   maxRequestBody,
		ServiceResolver:       services,
		WebhookAuthentication: s.webhooks.Authentication,
		DeletionDelay:         o.DeletionDelay,
		Require:               require,
	}); err != nil {
		return nil, fmt.Errorf("custom kinds: %w", err)
	}
	if slices.Contains(s.modes, authz.ModeNode) {
		o.Admission.Enable = append(slices.Clone(o.Admission.Enable), admission.NodeRestriction)
	}
	if s.admission, err = admission.New(o.Admission, admission.Environment{
		Objects:               s.objects,
		Authorizer:            s.access,
		ServiceResolver:       services,
		WebhookAuthentication: s.webhooks.Authentication,
		Stopping:              s.stopping.Done(),
	}); err == nil {
		err = s.bootstrap()
	}
	for _, start := range []func() error{s.keepFlowControl, s.publishAuthentication, s.registerAPIServices} {
		if err == nil {
			err = start()
		}
	}
	if err != nil {
		s.Stop()
		return nil, err
	}
	remote := s.newAggregator(services)
	s.handler = chain(s.pipeline(), remote.Wrap(s.routes()))
	s.work.Go(func() { remote.Run(s.stopping) })
	s.ready.Store(true)
	return s, nil
}

// addBuiltInResources adds the resources of the built-in kinds to the catalog.
func (s *Server) addBuiltInResources(guards map[schema.GroupResource]rbac.Guard, require store.Requirement) error {
	o := &s.options
	resources, err := kinds.Resources(kinds.Options{
		Scheme: builtin.Scheme(),
		Codecs: builtin.Codecs(),
		Storage: store.RESTOptions(store.Options{
			Storage: o.Storage, Codec: builtin.StorageCodec, DeletionDelay: o.DeletionDelay, Require: require,
		}),
		TypeConverter: kindschema.TypeConverter(builtin.Scheme()),
		Authorizer:    s.access,
		Guards:        guards,
		Warnings:      o.Warnings,
		More: map[schema.GroupResource]map[string]rest.Storage{
			corev1.Resource("serviceaccounts"): {"token": s.tokens.Requests()},
		},
		MaxRequestBodyBytes: maxRequestBody,
		OnReset:             func(reset func()) { s.onReset = append(s.onReset, reset) },
	}, slices.Concat(builtin.All(builtin.Options{ServiceNetwork: o.ServiceNetwork, Authorizer: s.access, Namespace: s.objects.namespace}), builtin.Computed(),
		builtin.Reviews(s.users, s.tokens.Audiences(), s.access)))
	if err != nil {
		return err
	}
	s.catalog.Set("built-in", resources...)
	return nil
}

// setUpAuthorization sets the authorizer, and returns the guards of the mode RBAC.
func (s *Server) setUpAuthorization() (map[schema.GroupResource]rbac.Guard, error) {
	var err error
	if s.modes, err = authz.ParseModes(s.options.AuthorizationMode); err != nil {
		return nil, err
	}
	var authorizers []authz.Authorizer
	var roles *rbac.Evaluator
	for _, mode := range s.modes {
		switch mode {
		case authz.ModeAlwaysAllow:
			authorizers = append(authorizers, authz.AlwaysAllow{})
		case authz.ModeNode:
			authorizers = append(authorizers, node.New(s.objects))
		case authz.ModeRBAC:
			roles = rbac.New(s.objects)
			authorizers = append(authorizers, roles)
		}
	}
	s.access = authz.New(authorizers...)
	if roles == nil {
		return nil, nil
	}
	return roles.Guards(s.access), nil
}

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(w, r) }

// Stop ends all watches and the server's own goroutines. Other requests that are being served
// finish.
func (s *Server) Stop() {
	s.ready.Store(false)
	s.stop()
	s.work.Wait()
	s.objects.close()
	if s.custom != nil {
		s.custom.Close()
	}
	s.webhooks.Close()
	if s.audit != nil {
		s.audit.Close()
	}
}

// resourceNotFound responds to a request for a resource that is not served: with a Status in the
// groups that are built in, and in plain text in all others, as kube-apiserver does.
func resourceNotFound(w http.ResponseWriter, r *http.Request) {
	info, ok := request.RequestInfoFrom(r.Context())
	if !ok || info.APIGroup != "" && !builtin.Scheme().IsGroupRegistered(info.APIGroup) {
		http.NotFound(w, r)
		return
	}
	writeNotFound(w, r)
}

// versionNotFound responds to a request for the resources of a version that is not served: like
// resourceNotFound in the built-in groups.
func versionNotFound(w http.ResponseWriter, r *http.Request) {
	group, version := r.PathValue("group"), r.PathValue("version")
	if version == "" || group != "" && !builtin.Scheme().IsGroupRegistered(group) {
		http.NotFound(w, r)
		return
	}
	writeNotFound(w, r)
}

// writeNotFound writes the Status for a path that does not exist.
func writeNotFound(w http.ResponseWriter, r *http.Request) {
	err := errors.NewGenericServerResponse(http.StatusNotFound, "", schema.GroupResource{}, "", "", 0, false)
	responsewriters.ErrorNegotiated(err, builtin.Codecs(), schema.GroupVersion{Version: "v1"}, w, r)
}

// routes returns the handler that routes requests by path.
func (s *Server) routes() http.Handler {
	notFound := http.HandlerFunc(http.NotFound)
	s.health = &health{ready: &s.ready, read: reads(s.options.Storage), checks: s.options.ReadyChecks}
	mux := http.NewServeMux()
	versions := discovery.New(s.catalog, builtin.Codecs(), http.HandlerFunc(versionNotFound))
	for _, path := range []string{"/api", "/api/{version}", "/apis", "/apis/{group}", "/apis/{group}/{version}",
		"/version"} {
		mux.Handle("GET "+path, versions)
		mux.Handle("GET "+path+"/{$}", versions)
	}
	mux.Handle("GET /openapi/", openapi.New(s.catalog, builtin.Scheme()))
	for _, path := range []string{"/healthz", "/livez", "/readyz"} {
		handler := metrics.InstrumentHandlerFunc("GET", "", "", "", path, "", "", false, "", s.health.ServeHTTP)
		mux.Handle("GET "+path, handler)
		mux.Handle("GET "+path+"/", handler)
	}
	mux.HandleFunc("GET "+serviceaccount.ConfigurationPath, s.tokens.ServeConfiguration)
	mux.HandleFunc("GET "+serviceaccount.KeysPath, s.tokens.ServeKeys)
	mux.Handle("/metrics", s.metricsHandler())
	mux.HandleFunc("GET /{$}", s.serveIndex)
	mux.Handle("/", notFound)
	resources := endpoints.New(s.catalog, s.admission, builtin.Codecs(), http.HandlerFunc(resourceNotFound),
		endpoints.Options{WithoutFastPath: s.options.WithoutFastPath})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if info, ok := request.RequestInfoFrom(r.Context()); ok && info.IsResourceRequest {
			resources.ServeHTTP(w, r)
			return
		}
		mux.ServeHTTP(w, r)
	})
}
