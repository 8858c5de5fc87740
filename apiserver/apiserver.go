// Package apiserver serves the Kubernetes API from a revisioned store.
//
// A request passes the filters of the pipeline, in the order given in pipeline.go, and then reaches the handler of its
// path: discovery, OpenAPI, health, or a verb of a resource. The catalog lists the served resources: the built-in ones,
// and the custom ones for as long as their definitions exist.
//
// Most handlers, and the generic registry below them, are upstream's (k8s.io/apiserver). So create, update, the four
// patches, server-side apply, dry run, field validation, tables, watches and lists mean the same as on a cluster,
// because the code is the same. The packages below this one replace the storage, the catalog, the filters, admission
// and, on the fast path, the handlers of frequent requests. Objects have their external v1 types everywhere. There are
// no internal versions, and no conversion between the request and the store, except for Event, which two groups serve.
//
// /metrics has kube-apiserver's metrics. Upstream's handlers record most of them, for the whole process. The numbers of
// stored objects and of requests in flight are computed at each scrape. Their registry is the registry of
// k8s.io/component-base.
//
// # The cost of a request
//
// The server bounds the cost of a request in advance. A request that is not a watch ends within a minute, including
// body and response. Memory for a body grows with the received bytes, to 3 MB. 400 reading and 200 writing requests may
// be in flight, as in kube-apiserver; requests of the controllers of the control plane are exempt. docs/limits.md is
// the table of the bounds, with their tests. A fuzz test sends random requests: no response may have the code 500.
//
// # Stopping
//
// A server that stops finishes the requests that it has received, answers later ones with 503, ends watches, and closes
// connections after the responses. The filter lifetime bounds a request by its timeout and by the end of the server.
//
// # Reset
//
// For a reset of the control plane, the filter lifetime has a gate (reset.go) that holds requests back. Requests in
// flight may finish, and are cancelled after 20 ms. Upstream's handlers may leave a goroutine behind when they are
// cancelled; their contexts carry a fence, and the storage refuses writes with it. Admission and RBAC follow the reset
// by themselves, because they read changes from the storage. Allocators read the services again. Changed definitions
// are compiled again, and unchanged ones are served as before.
//
// # Forks
//
// The server of a fork ([Options].ForkOf) shares decoded objects, field managers, compiled schemas and the index of
// roles with the server before it. It does not create the objects that every cluster has, and looks after them a second
// later. The resources of built-in kinds refer to the storage, so each fork has its own, and makes them when one of a
// kind is looked up. No part of a fork keeps the server before it alive.
//
// # Several servers of one storage
//
// With Shared, others may write to the storage. Most of the server needs no change for this, because it watches its own
// objects. Package crd observes the definitions of others, and servers announce their addresses by master leases
// (package background). An allocation of a node port is claimed (claims.go): a claim is a record that is created under
// a condition and expires after a minute, the longest time of a request. After that, the stored Service itself shows the
// allocation, so a crash leaves nothing behind.
//
// The creation of an object requires the revision at which its namespace was found not to be terminating
// (namespaces.go), and the deletion of a namespace changes that revision. So a terminating namespace that was found
// empty stays empty, however long a webhook holds a request back, and with several servers.
//
// # Globals
//
// upstream.go replaces the error handlers of apimachinery, and bounds the copies of JSON patches.
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
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	requestmetrics "k8s.io/apiserver/pkg/endpoints/metrics"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage/value"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"

	"flyball.dev/apiserver/admission"
	"flyball.dev/apiserver/aggregator"
	"flyball.dev/apiserver/auditlog"
	"flyball.dev/apiserver/authn"
	"flyball.dev/apiserver/authz"
	"flyball.dev/apiserver/authz/node"
	"flyball.dev/apiserver/authz/rbac"
	"flyball.dev/apiserver/background"
	"flyball.dev/apiserver/builtin"
	"flyball.dev/apiserver/crd"
	"flyball.dev/apiserver/discovery"
	"flyball.dev/apiserver/endpoints"
	"flyball.dev/apiserver/kinds"
	"flyball.dev/apiserver/kinds/core"
	"flyball.dev/apiserver/kinds/metrics"
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
	// server validates them, but admission does not see them. It creates roles and bindings only in the mode RBAC, and
	// adds missing rules and subjects to existing ones. If an object has managed fields, the first of these names the
	// object's field manager.
	Objects []kinds.Object
	// Admission selects the admission plugins. With the authorization mode Node, [admission.NodeRestriction] runs
	// unless it is disabled by name.
	Admission admission.Options
	// Warnings, if not nil, returns warnings for a write of an object of a built-in kind, in addition to the server's
	// own. old is nil on create. The function must be safe for concurrent use and must not change the objects.
	Warnings func(obj, old runtime.Object) []string
	// Simulated, if not nil, reports whether a node is simulated, so that no process listens at the addresses of its pods.
	// The server calls a webhook or an extension API server in such a pod by Kubelet.
	Simulated func(*corev1.Node) bool
	// SimulatedAddress, if not nil, reports whether the pods of simulated nodes get an address. The server never calls a
	// webhook or an extension API server at such an address, or at the address of a simulated node.
	SimulatedAddress func(netip.Addr) bool
	// Usage, if not nil, returns the CPU and the memory that a container that runs uses at a time. The server then serves
	// the API group metrics.k8s.io. The function must be safe for concurrent use and must not change the pod.
	Usage func(pod *corev1.Pod, container string, now time.Time) corev1.ResourceList
	// Kubelet, if not nil, returns the kubelet of a node, or nil if the server cannot reach it. The server calls it for
	// the logs of pods, and for connections to pods, their ports and nodes. It must be safe for concurrent use.
	Kubelet func(node *corev1.Node) core.Kubelet
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
	// LoopbackPorts are the ports of 127.0.0.1 that Services may lead the server to by the annotation
	// [webhook.LoopbackPort].
	LoopbackPorts []uint16
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
	// RemovedVersions serves API versions that Kubernetes has removed: policy/v1beta1 PodDisruptionBudget, batch/v1beta1
	// CronJob and apiextensions.k8s.io/v1beta1 CustomResourceDefinition. They are converted from and to the stored versions.
	RemovedVersions bool
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
	options    Options
	modes      []string // of authorization
	users      authenticator.Request
	tokens     *serviceaccount.Tokens
	access     authz.Authorizer
	roles      *rbac.Evaluator // nil without the mode RBAC
	catalog    *resource.Catalog
	custom     *crd.Kinds
	objects    *objects
	admission  *admission.Plugins
	webhooks   *webhook.Dialer
	handler    http.Handler
	health     *health
	audit      *auditlog.Log // nil for none
	reading    *limiter
	mutating   *limiter
	ready      atomic.Bool
	stopping   context.Context
	stop       context.CancelFunc
	work       sync.WaitGroup // goroutines that run until stopping is done
	gate       gate
	resets     resets
	aggregator *aggregator.Aggregator
	builtin    *kinds.Lazy
	// owners and fieldManagers are what this server and forks of it share.
	owners        *store.Owners
	fieldManagers *kinds.FieldManagers
	background    *background.Controllers
}

// New returns a server for the objects in the storage. New creates the namespaces and the priority classes that every
// cluster has, and in the mode RBAC the roles and bindings. All goroutines of the server end with [Server.Stop].
func New(o Options) (*Server, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	s := &Server{options: o, catalog: &resource.Catalog{}, owners: &store.Owners{}, fieldManagers: &kinds.FieldManagers{}}
	if o.ForkOf != nil {
		s.owners, s.fieldManagers = o.ForkOf.owners, o.ForkOf.fieldManagers
	}
	s.objects = &objects{server: s}
	s.webhooks = webhook.NewDialer(o.DialWebhook, s.connections().DialPod)
	s.stopping, s.stop = context.WithCancel(context.Background())
	err := s.start()
	if o.ForkOf != nil {
		s.options.ForkOf = nil // it may be stopped
	}
	if err != nil {
		s.Stop()
		return nil, err
	}
	return s, nil
}

// start sets up the parts in the order of their dependencies, and creates the objects that every cluster has.
func (s *Server) start() error {
	guards, err := s.setUpAuthorization()
	if err != nil {
		return err
	}
	if s.audit, err = auditlog.New(s.options.Audit); err != nil {
		return err
	}
	if err := s.setUpAuthentication(); err != nil {
		return err
	}
	require := s.requirement()
	if err := s.addBuiltInResources(guards, require); err != nil {
		return fmt.Errorf("built-in kinds: %w", err)
	}
	services := webhook.Services{Storage: s.objects.Storage, Simulated: s.options.Simulated, SimulatedAddress: s.options.SimulatedAddress,
		LoopbackPorts: s.options.LoopbackPorts}
	if err := s.addCustomResources(services, require); err != nil {
		return fmt.Errorf("custom kinds: %w", err)
	}
	if err := s.setUpAdmission(services); err != nil {
		return err
	}
	s.background = background.New(s.stopping, s.backgroundConfig())
	if err := s.background.Start(); err != nil {
		return err
	}
	s.aggregator = s.newAggregator(services)
	s.handler = chain(s.pipeline(), s.aggregator.Wrap(s.routes()))
	s.work.Go(func() { s.aggregator.Run(s.stopping) })
	s.ready.Store(true)
	return nil
}

// backgroundConfig returns what the controllers in the background need of the server.
func (s *Server) backgroundConfig() background.Config {
	o := &s.options
	c := background.Config{
		Storage: o.Storage, Catalog: s.catalog, Transformers: o.Transformers, Exclusive: s.exclusive,
		Objects: o.Objects, RBAC: slices.Contains(s.modes, authz.ModeRBAC), ServiceNetwork: o.ServiceNetwork, Shared: o.Shared,
		Authentication: background.Authentication{ClientCA: o.Aggregation.ClientCA, ProxyCA: o.Aggregation.CA, ProxyName: ProxyClient},
	}
	if o.ForkOf != nil {
		c.ForkOf = o.ForkOf.background
	}
	return c
}

// ServiceIP returns the cluster IP of the Service "kubernetes": the first address of the service
// network.
func (s *Server) ServiceIP() netip.Addr { return core.APIServerIP(s.options.ServiceNetwork) }

// Advertise creates the Service "kubernetes" in the namespace default, with its Endpoints and its EndpointSlice. Until
// [Server.Stop], it reconciles them after changes, together with the default ServiceCIDR and the system namespaces,
// because users can delete kube-node-lease. Advertise must be called at most once.
//
// The address is the listen address of the server. For an unspecified address, the endpoints get an address of the
// host. For a loopback address or the zero value, they get the unreachable address 192.0.2.1. With [Options].Shared, the
// endpoints have the addresses of all servers, with the port of one of them: the servers should have the same port.
func (s *Server) Advertise(address netip.AddrPort) error { return s.background.Advertise(address) }

// setUpAuthentication sets the authenticators, and the issuer of service account tokens.
func (s *Server) setUpAuthentication() error {
	var err error
	if s.tokens, err = serviceaccount.New(s.objects, s.options.ServiceAccounts); err != nil {
		return fmt.Errorf("the key of service accounts: %w", err)
	}
	config := s.options.Authentication
	config.ServiceAccounts = s.tokens
	config.Bootstrap = authn.BootstrapTokens{Objects: s.objects}
	config.Audiences = s.tokens.Audiences()
	s.users = authn.New(config)
	return nil
}

// setUpAdmission sets the admission plugins.
func (s *Server) setUpAdmission(services webhook.Services) (err error) {
	options := s.options.Admission
	if slices.Contains(s.modes, authz.ModeNode) {
		options.Enable = append(slices.Clone(options.Enable), admission.NodeRestriction)
	}
	s.admission, err = admission.New(options, admission.Environment{
		Objects:               s.objects,
		Authorizer:            s.access,
		ServiceResolver:       services,
		WebhookAuthentication: s.webhooks.Authentication,
	})
	return err
}

// addCustomResources adds the resources of the CustomResourceDefinitions in the storage to the catalog, and keeps them
// up to date.
func (s *Server) addCustomResources(services webhook.Services, require store.Requirement) (err error) {
	o := &s.options
	var customOfFork *crd.Kinds
	if o.ForkOf != nil {
		customOfFork = o.ForkOf.custom
	}
	s.custom, err = crd.New(crd.Options{
		Storage:               o.Storage,
		Catalog:               s.catalog,
		RemovedVersions:       o.RemovedVersions,
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
	})
	return err
}

// addBuiltInResources adds the resources of the built-in kinds to the catalog.
func (s *Server) addBuiltInResources(guards map[schema.GroupResource]rbac.Guard, require store.Requirement) error {
	o := &s.options
	options := kinds.Options{
		Scheme: builtin.Scheme(),
		Codecs: builtin.Codecs(),
		Storage: store.RESTOptions(store.Options{
			Storage: o.Storage, Codec: builtin.StorageCodec, Default: builtin.Scheme().Default, DeletionDelay: o.DeletionDelay, Require: require, Owners: s.owners,
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
		OnReset:             s.resets.add,
	}
	sets := append(builtin.Sets(builtin.Options{ServiceNetwork: o.ServiceNetwork, Claims: o.claims(), Authorizer: s.access,
		Namespace: s.objects.namespace, Connections: s.connections(), RemovedVersions: o.RemovedVersions}),
		func() []kinds.Kind { return []kinds.Kind{core.ComponentStatuses()} },
		func() []kinds.Kind { return builtin.Reviews(s.users, s.tokens.Audiences(), s.access) })
	if o.ForkOf != nil {
		s.builtin = o.ForkOf.builtin.Fork(options, sets)
	} else {
		var err error
		if s.builtin, err = kinds.NewLazy(options, sets); err != nil {
			return err
		}
	}
	s.catalog.SetLazy("built-in", s.builtin)
	measured, err := kinds.Resources(options, builtin.Measured(s.metricsSource()))
	s.catalog.Set("metrics", measured...)
	return err
}

// newRoles returns the evaluator of the stored roles and bindings.
func (s *Server) newRoles() (*rbac.Evaluator, error) {
	of := s.options.ForkOf
	if of == nil {
		return rbac.New(s.objects), nil
	}
	revision, _, err := s.options.Storage.Revisions(context.Background())
	if err != nil {
		return nil, err
	}
	return of.roles.Fork(s.objects, uint64(revision)), nil
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
			if roles, err = s.newRoles(); err != nil {
				return nil, err
			}
			authorizers = append(authorizers, roles)
		}
	}
	s.roles, s.access = roles, authz.New(authorizers...)
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
	if s.background != nil {
		s.background.Wait()
	}
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
func (s *Server) resourceNotFound(w http.ResponseWriter, r *http.Request) {
	info, ok := request.RequestInfoFrom(r.Context())
	if !ok || !s.isBuiltIn(info.APIGroup) {
		http.NotFound(w, r)
		return
	}
	writeNotFound(w, r)
}

// versionNotFound responds to a request for the resources of a version that is not served. The format of the response
// depends on the group, as in resourceNotFound.
func (s *Server) versionNotFound(w http.ResponseWriter, r *http.Request) {
	group, version := r.PathValue("group"), r.PathValue("version")
	if version == "" || !s.isBuiltIn(group) {
		http.NotFound(w, r)
		return
	}
	writeNotFound(w, r)
}

// isBuiltIn reports whether the server has kinds of a group.
func (s *Server) isBuiltIn(group string) bool {
	return group == "" || builtin.Scheme().IsGroupRegistered(group) && (group != metricsv1beta1.GroupName || s.options.Usage != nil)
}

// metricsSource returns the source of metrics, or nil.
func (s *Server) metricsSource() *metrics.Source {
	if s.options.Usage == nil {
		return nil
	}
	of := func(resource string) func() rest.Storage {
		return func() rest.Storage { return s.objects.Storage(corev1.SchemeGroupVersion.WithResource(resource)) }
	}
	return &metrics.Source{Pods: of("pods"), Nodes: of("nodes"), Usage: s.options.Usage}
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
	versions := discovery.New(s.catalog, builtin.Codecs(), http.HandlerFunc(s.versionNotFound))
	for _, path := range []string{"/api", "/api/{version}", "/apis", "/apis/{group}", "/apis/{group}/{version}",
		"/version"} {
		mux.Handle("GET "+path, versions)
		mux.Handle("GET "+path+"/{$}", versions)
	}
	mux.Handle("GET /openapi/", openapi.New(s.catalog, builtin.Scheme()))
	for _, path := range []string{"/healthz", "/livez", "/readyz"} {
		handler := requestmetrics.InstrumentHandlerFunc("GET", "", "", "", path, "", "", false, "", s.health.ServeHTTP)
		mux.Handle("GET "+path, handler)
		mux.Handle("GET "+path+"/", handler)
	}
	mux.HandleFunc("GET "+serviceaccount.ConfigurationPath, s.tokens.ServeConfiguration)
	mux.HandleFunc("GET "+serviceaccount.KeysPath, s.tokens.ServeKeys)
	mux.Handle("/metrics", s.metricsHandler())
	mux.HandleFunc("GET "+SnapshotPath, s.serveSnapshot)
	mux.HandleFunc("GET /{$}", s.serveIndex)
	mux.Handle("/", notFound)
	resources := endpoints.New(s.catalog, s.admission.Of, builtin.Codecs(), http.HandlerFunc(s.resourceNotFound),
		endpoints.Options{WithoutFastPath: s.options.WithoutFastPath, Audited: s.audit != nil})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if info, ok := request.RequestInfoFrom(r.Context()); ok && info.IsResourceRequest {
			resources.ServeHTTP(w, r)
			return
		}
		mux.ServeHTTP(w, r)
	})
}
