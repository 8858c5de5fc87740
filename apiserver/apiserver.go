// Package apiserver serves the Kubernetes API from a revisioned store.
//
// A request passes the filters of the pipeline, in the order given in pipeline.go, and then reaches the handler of its
// path: discovery, OpenAPI, health, or a verb of a resource. The catalog lists the served resources: the built-in ones,
// and the custom ones for as long as their definitions exist.
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
	"k8s.io/apiserver/pkg/storage/value"

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

// maxRequestBody is the maximum size of a request body in bytes, as in kube-apiserver.
const maxRequestBody = 3 << 20

// Options configure a [Server]. Storage is required.
type Options struct {
	// Storage keeps the objects. The server does not close the storage.
	Storage storage.Store
	// Authentication configures authenticators. The server adds the ones for service account tokens and bootstrap
	// tokens.
	Authentication authn.Config
	// AuthorizationMode is a comma-separated list of authorization modes, by default [authz.ModeRBAC]; see
	// [authz.ParseModes]. A request is allowed if one of the modes allows it.
	AuthorizationMode string
	// Objects are created at the start if they do not exist, in addition to the objects that every cluster has. The
	// server creates them without admission and validation. It creates roles and bindings only in the mode RBAC, and
	// adds missing rules and subjects to existing ones.
	Objects []kinds.Object
	// Admission selects the admission plugins. With the authorization mode Node, [admission.NodeRestriction] runs
	// unless it is disabled by name.
	Admission admission.Options
	// Warnings, if not nil, returns warnings for a write of an object of a built-in kind, in addition to the server's
	// own. old is nil on create. The function must be safe for concurrent use and must not change the objects.
	Warnings func(obj, old runtime.Object) []string
	// Simulated, if not nil, reports whether a pod is simulated, so that no process listens at its address. The server
	// never calls a webhook or an extension API server at the address of such a pod.
	Simulated func(*corev1.Pod) bool
	// ReadyChecks are additional checks of /readyz.
	ReadyChecks []ReadyCheck
	// MaxRequestsInFlight limits concurrent read-only requests, and MaxMutatingRequestsInFlight all other requests. The
	// defaults are 400 and 200; a negative value means no limit. A request above a limit gets 429 Too Many Requests,
	// unless its user is a member of system:masters or its context comes from [WithoutLimit]. Watches and other
	// long-running requests do not count.
	MaxRequestsInFlight, MaxMutatingRequestsInFlight int
	// Audit configures the audit log. By default the server keeps no audit log.
	Audit auditlog.Options
	// Aggregation configures the requests to extension API servers.
	Aggregation Aggregation
	// DialWebhook connects to webhooks and extension API servers; the default uses TCP. The function must be safe for
	// concurrent use.
	DialWebhook webhook.DialFunc
	// ServiceAccounts configures the tokens of service accounts.
	ServiceAccounts serviceaccount.Options
	// ServiceNetwork is the IPv4 range of cluster IPs, with at least 8 addresses. The default is 10.96.0.0/12.
	ServiceNetwork netip.Prefix
	// DeletionDelay is how long the server keeps an object with a deletion timestamp that it could remove at once; see
	// [store.Config]. It must be shorter than [RequestTimeout].
	DeletionDelay time.Duration
	// Transformers encrypt the stored objects; nil means no encryption. Records of the server that are no objects are not
	// encrypted.
	Transformers value.ResourceTransformers
	// Shared says that other servers may use the storage at the same time. The endpoints of the Service kubernetes then
	// have the addresses of all.
	Shared bool
	// WithoutFastPath serves every request with the handlers of k8s.io/apiserver. By default the server handles common
	// requests with shorter code of its own. The responses are the same.
	WithoutFastPath bool
	// ForkOf, if not nil, is a server with the same options over the store that Storage was forked from. The new server
	// does not look for the objects that ForkOf has created, and shares decoded objects and compiled schemas with it.
	ForkOf *Server
}

// complete sets the defaults and validates the options that no other package validates.
func (o *Options) complete() error {
	if !o.ServiceNetwork.IsValid() {
		o.ServiceNetwork = core.DefaultServiceNetwork
	}
	o.ServiceNetwork = o.ServiceNetwork.Masked()
	switch {
	case o.DeletionDelay >= RequestTimeout:
		return fmt.Errorf("the deletion delay of %s must be shorter than a request may take, %s", o.DeletionDelay, RequestTimeout)
	case !o.ServiceNetwork.Addr().Is4():
		return fmt.Errorf("the range of cluster IPs %s is not an IPv4 range", o.ServiceNetwork)
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
	// owners and fieldManagers are what this server and forks of it share.
	owners        *store.Owners
	fieldManagers *kinds.FieldManagers
	// address is the advertised address, and reconciled the address for which the Service kubernetes was reconciled in the
	// server that this one is a fork of.
	address, reconciled netip.AddrPort

	registrations registrations
}

// New returns a server for the objects in the storage. New creates the namespaces and the priority classes that every
// cluster has, and in the mode RBAC the roles and bindings. All goroutines of the server end with [Server.Stop].
func New(o Options) (*Server, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	s := &Server{options: o, catalog: &resource.Catalog{}, webhooks: webhook.NewDialer(o.DialWebhook),
		owners: &store.Owners{}, fieldManagers: &kinds.FieldManagers{}}
	var customOfFork *crd.Kinds
	if o.ForkOf != nil {
		s.owners, s.fieldManagers = o.ForkOf.owners, o.ForkOf.fieldManagers
		s.reconciled, customOfFork = o.ForkOf.address, o.ForkOf.custom
		defer func() { s.options.ForkOf = nil }() // it may be stopped
	}
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
		Transformers:          o.Transformers,
		Shared:                o.Shared,
		Owners:                s.owners,
		ForkOf:                customOfFork,
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
	}); err == nil && o.ForkOf == nil {
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
			Storage: o.Storage, Codec: builtin.StorageCodec, DeletionDelay: o.DeletionDelay, Require: require, Owners: s.owners,
			Transformers: o.Transformers,
		}),
		TypeConverter: kindschema.TypeConverter(builtin.Scheme()),
		Authorizer:    s.access,
		Guards:        guards,
		Warnings:      o.Warnings,
		More: map[schema.GroupResource]map[string]rest.Storage{
			corev1.Resource("serviceaccounts"): {"token": s.tokens.Requests()},
		},
		MaxRequestBodyBytes: maxRequestBody,
		FieldManagers:       s.fieldManagers,
		OnReset:             func(reset func()) { s.onReset = append(s.onReset, reset) },
	}, slices.Concat(builtin.All(builtin.Options{ServiceNetwork: o.ServiceNetwork, Claims: o.claims(), Authorizer: s.access, Namespace: s.objects.namespace}), builtin.Computed(),
		builtin.Reviews(s.users, s.tokens.Audiences(), s.access)))
	if err != nil {
		return err
	}
	s.catalog.Set("built-in", resources...)
	return nil
}

// setUpAuthorization sets the authorizer, and returns the guards of the resources in the mode RBAC.
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

// Stop ends all watches and the server's own goroutines. Other requests in flight finish.
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

// resourceNotFound responds to a request for a resource that is not served. Like kube-apiserver, it writes a Status in
// the built-in groups and plain text in all other groups.
func resourceNotFound(w http.ResponseWriter, r *http.Request) {
	info, ok := request.RequestInfoFrom(r.Context())
	if !ok || info.APIGroup != "" && !builtin.Scheme().IsGroupRegistered(info.APIGroup) {
		http.NotFound(w, r)
		return
	}
	writeNotFound(w, r)
}

// versionNotFound responds to a request for the resources of a version that is not served. The format of the response
// depends on the group, as in resourceNotFound.
func versionNotFound(w http.ResponseWriter, r *http.Request) {
	group, version := r.PathValue("group"), r.PathValue("version")
	if version == "" || group != "" && !builtin.Scheme().IsGroupRegistered(group) {
		http.NotFound(w, r)
		return
	}
	writeNotFound(w, r)
}

// writeNotFound writes a NotFound Status for a path.
func writeNotFound(w http.ResponseWriter, r *http.Request) {
	err := errors.NewGenericServerResponse(http.StatusNotFound, "", schema.GroupResource{}, "", "", 0, false)
	responsewriters.ErrorNegotiated(err, builtin.Codecs(), schema.GroupVersion{Version: "v1"}, w, r)
}

// routes returns the handler that routes requests by path.
func (s *Server) routes() http.Handler {
	notFound := http.HandlerFunc(http.NotFound)
	s.health = &health{ready: &s.ready, read: reads(s.options.Storage), write: writes(s.options.Storage), checks: s.options.ReadyChecks}
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
	mux.HandleFunc("GET "+SnapshotPath, s.serveSnapshot)
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
