// Package controlplane runs a whole Kubernetes control plane in one process: storage, API server and controllers, which
// start and stop together.
//
// Clients in the process reach the control plane without a socket, with [ControlPlane.Config]. With [Options.Listen] it
// also serves HTTPS, for any client with the [ControlPlane.Kubeconfig]. Both kinds of clients see the same objects. Any
// number of control planes can run in one process.
//
// # Start and Stop
//
// [Start] checks the options and listens ([Options.prepare]), opens the storage ([Options.openStorage]), and starts the
// parts in the order of their dependencies ([ControlPlane.start]): keys, the API server, HTTPS ([serveHTTPS]), and the
// controllers ([controllerManager.start]). /readyz is ok when the caches of the controllers are in sync
// ([controllerManager.readyChecks]). [ControlPlane.run] waits for [ControlPlane.Stop], the end of the context or a
// failure of the listener. [ControlPlane.shutDown] stops the parts in the reverse order: the controllers first, then
// watches, then the requests in flight, and the storage last. [ControlPlane.Done] and [ControlPlane.Err] report the
// end.
//
// A manager on the control plane must stop before it, so a program must not give both the same context.
//
// Everything works in a bubble of testing/synctest. No socket is needed in the process, and Stop waits for everything
// that was started.
//
// # Reset and forks
//
// [ControlPlane.Checkpoint], [ControlPlane.Reset] and [ControlPlane.Fork] are for tests. They are changes of the
// storage in memory: package memory says how they work, and package apiserver how the server follows. A reset ends each
// watch with the status 410, which names the reset as the cause, so Flyball's caches list again within milliseconds
// (package ctrl/cache/internal/reflector).
//
// # The storage
//
// The package links package datadir, because [Options].DataDir is a path that a program may read from its flags. An
// operator without a control plane links no storage (TestOperatorsLinkNoStorage, TestOperatorsLinkNoClients).
//
// The storage has the data that several servers of one storage share: the certificate authorities and the key of the
// service accounts (credentials.go), below a key that no request reaches and that kube-apiserver ignores. With
// [Options].Shared, the controllers hold a Lease.
//
// # Connections to pods
//
//	kubectl → apiserver → kinds/core (pods/exec, …) → controllers/pods/server → runtime.Runtime → handler or shell
//
// kubelet.go implements the connections of package core: a handler with kubelet's paths for each node (package
// controllers/pods/server), which the API server calls in the process. So a connection is hijacked once, and there is
// no second one to a kubelet. Webhooks and extension API servers behind a Service are reached in the same way.
//
// In the process, a request that is upgraded needs a connection, which is made of net.Pipe ([inProcess.dial]).
// client-go opens WebSockets without the transport of a configuration, so the field Proxy leads them there, by the
// scheme flyball-in-process, which this package registers with golang.org/x/net/proxy.
package controlplane

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/storage/value"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"flyball.dev/apiserver"
	"flyball.dev/apiserver/admission"
	"flyball.dev/apiserver/auditlog"
	"flyball.dev/apiserver/authn"
	"flyball.dev/apiserver/authz"
	"flyball.dev/apiserver/kinds/core"
	"flyball.dev/apiserver/resource"
	"flyball.dev/apiserver/serviceaccount"
	"flyball.dev/controllers"
	"flyball.dev/controllers/certificates"
	"flyball.dev/controllers/pods/runtime"
	"flyball.dev/ctrl/manager"
	kubeconfigfile "flyball.dev/internal/kubeconfig"
	"flyball.dev/storage"
	"flyball.dev/storage/datadir"
	"flyball.dev/storage/memory"
)

// KubernetesVersion is the Kubernetes version of the served API.
const KubernetesVersion = "v" + resource.Release

// Options configure a control plane. With the zero value, the control plane stores objects in memory, runs all
// controllers, and serves only clients in the process.
type Options struct {
	// Listen is the address and port for HTTPS, such as "127.0.0.1:6443". Port 0 selects a free port. If Listen is
	// empty, the control plane opens no socket.
	Listen string
	// KubeconfigFile, if not empty, is the path of the administrator's kubeconfig. Start writes the file, with mode
	// 0600, when the server is ready, and creates its directory if necessary. Start fails and changes nothing if the
	// file belongs to a running control plane, or if no control plane has written it. KubeconfigFile requires Listen.
	// Stop leaves the file in place; client/config.GetConfig then reports that no server answers.
	KubeconfigFile string
	// ServingCertificate is the certificate of the HTTPS server. By default, the authority of this control plane signs
	// one. With ServingCertificate, the kubeconfig has the last certificate of its chain as the certificate authority.
	ServingCertificate *tls.Certificate
	// ServingNames are additional DNS names and IP addresses in the certificate that this control plane's authority
	// signs, such as the name of a load balancer. A DNS name may begin with "*.". With ServingCertificate, they have no
	// effect.
	ServingNames []string
	// ClientCA has additional client certificate authorities in PEM. The control plane accepts their certificates and
	// the certificates of its own authority.
	ClientCA []byte
	// RequestHeader, if not nil, authenticates users by headers from a trusted proxy.
	RequestHeader *authn.RequestHeader
	// WithoutAnonymous refuses requests without credentials, including health checks.
	WithoutAnonymous bool
	// AdvertiseAddress is the address in the endpoints of the Service kubernetes. The default is the address of Listen;
	// see [apiserver.Server.Advertise].
	AdvertiseAddress netip.Addr
	// ServiceAccounts configures the tokens of service accounts. The default signing key is in the storage.
	ServiceAccounts serviceaccount.Options
	// ServiceNetwork is the IPv4 range of cluster IPs. The default is 10.96.0.0/12.
	ServiceNetwork netip.Prefix
	// DeletionDelay is how long the server keeps a deleted object that it could remove at once, such as a pod deleted
	// without grace period, or an object that has lost its last finalizer. kube-apiserver with etcd takes some
	// milliseconds for the removal, and clients can observe the object during that time. The default is no delay. The
	// delay ends with the request, and must be shorter than the request timeout of a minute.
	DeletionDelay time.Duration
	// Tokens maps accepted bearer tokens to their users, in addition to client certificates.
	Tokens map[string]*user.DefaultInfo
	// AuthorizationMode selects the authorizers. "RBAC", the default, uses roles and bindings. "Node" lets the user
	// system:node:NAME in the group system:nodes access the objects that the pods of that node need, and enables the
	// admission plugin NodeRestriction. "Node,RBAC" combines both. "AlwaysAllow" allows every request. Controllers are
	// authorized like other users, so they need "RBAC" or "AlwaysAllow".
	AuthorizationMode string
	// MaxRequestsInFlight limits the non-mutating requests in flight, and MaxMutatingRequestsInFlight the mutating
	// ones. The defaults are 400 and 200; a negative number means no limit. Requests above a limit get 429 Too Many
	// Requests. Watches and other long-running requests do not count. Members of system:masters, such as the
	// administrator, are exempt.
	MaxRequestsInFlight, MaxMutatingRequestsInFlight int
	// DataDir, if not empty, is the directory that keeps the objects, the keys of the control plane and its port. A
	// control plane continues with the state of the last one with that directory, also after a crash. If Listen has
	// port 0, the control plane listens on the same port again, unless the port is in use. Package datadir describes
	// the directory. Objects that are unused for a while are compressed in memory.
	DataDir string
	// Snapshot, if not empty, is a file of [SaveSnapshot] or flyball snapshot save. The control plane starts with its
	// objects, authorities and keys, in memory, and does not write the file. Resource versions go on a million later, and
	// watches from earlier ones get 410 Gone. Objects that are unused for a while are compressed in memory.
	Snapshot string
	// Storage stores the objects if DataDir and Snapshot are empty. The default is storage in memory that does not compress idle
	// objects (see memory.Options.CompressAfter). The control plane closes the storage when it stops; Start closes it
	// when Start fails.
	Storage storage.Store
	// Transformers encrypt the objects in the storage; see the package flyball.dev/controlplane/encryption.
	// They do not encrypt the keys of the control plane itself. By default, nothing is encrypted.
	Transformers value.ResourceTransformers
	// ReadyChecks are additional checks of /readyz.
	ReadyChecks []apiserver.ReadyCheck
	// Shared says that other control planes may use Storage at the same time, as with an etcd cluster. The controllers
	// then run in only one of them, the holder of the Lease kube-controller-manager in the namespace kube-system, and
	// the endpoints of the Service kubernetes have the addresses of all; the control planes should listen on the same
	// port.
	Shared bool
	// Controllers selects and configures the controllers. RootCA defaults to the certificate of this control plane's
	// authority, and Signer to the authority itself. Start replaces ConfigFor: controllers make their requests in the
	// process, each with its own identity.
	Controllers controllers.Options
	// Nodes are the nodes that exist from the start, such as [pods.Nodes](3). If not nil, they replace Controllers.Pods.Nodes,
	// which documents them. The default is one node. [ControlPlane.Nodes] stops them.
	Nodes []corev1.Node
	// WrapTransport, if not nil, wraps the transport of each controller. It is called with the name of the controller's
	// user when the controllers start.
	WrapTransport func(user string, transport http.RoundTripper) http.RoundTripper
	// Admission selects the admission plugins of the API server. Three plugins are disabled without the controllers
	// that they need, unless they are enabled by name: ServiceAccount, which refuses pods in namespaces without a
	// service account; StorageObjectInUseProtection, because nothing would remove its finalizers; and
	// TaintNodesByCondition, because nothing would remove its taint.
	Admission admission.Options
	// Audit configures the audit log. By default there is no audit log.
	Audit auditlog.Options
	// DialWebhook connects to webhooks and extension API servers; the default uses TCP. The function must be safe for
	// concurrent use.
	DialWebhook func(ctx context.Context, network, address string) (net.Conn, error)
	// LoopbackPorts are the ports of 127.0.0.1 that Services may lead webhooks and extension API servers to by the
	// annotation flyball.dev/loopback-port. By default there are none: everybody who may write Services could reach the
	// ports of this machine.
	LoopbackPorts []uint16
	// Logger is the logger of the controllers. They log errors; at level 1 they also log their start and stop, and at
	// level 2 the events that they record. The default is klog's logger, which writes to standard error. The Kubernetes
	// libraries in the API server always use klog.
	Logger logr.Logger
	// Console makes a console of the controllers, such as console.New of package flyball.dev/ctrl/console. It is called
	// whenever the controllers start. By default they have none.
	Console func() manager.Console
	// WithoutControllers runs only the API server.
	WithoutControllers bool
	// RemovedVersions serves API versions that Kubernetes has removed, for clients of older years: policy/v1beta1
	// PodDisruptionBudget, batch/v1beta1 CronJob and apiextensions.k8s.io/v1beta1 CustomResourceDefinition. They are
	// converted from and to the stored versions.
	RemovedVersions bool
	// WithoutFastPath serves every request with the handlers of k8s.io/apiserver. By default the API server handles
	// common requests with shorter code of its own. The responses are the same, but take longer.
	WithoutFastPath bool
}

// ControlPlane is a running control plane. Its methods are safe for concurrent use.
type ControlPlane struct {
	options     Options // with defaults
	storage     storage.Store
	identity    *identity
	server      *apiserver.Server
	transport   *inProcess
	https       *httpsServer       // nil without Options.Listen
	controllers *controllerManager // nil without controllers
	handlers    *runtime.Handlers  // nil without controllers
	kubelets    kubelets

	// starting is held while the controllers start or stop. stopped is set when they do not start any more.
	starting sync.Mutex
	stopped  bool

	stop context.CancelFunc // requests the shutdown
	done chan struct{}      // closed after the shutdown
	err  error              // written before done is closed
}

// Start starts a control plane, which is ready for requests when Start returns. The control plane runs until ctx ends,
// [ControlPlane.Stop] is called, or it fails; see [ControlPlane.Done] and [ControlPlane.Err]. If ctx ends before the
// control plane is ready, Start stops all parts that it has started and returns the error of ctx.
//
// A manager still needs its control plane after the manager's own context has ended: to finish reconciles, to record
// events and to release its lease. A program with both should therefore start the control plane with another context,
// and stop it after the manager's Start has returned:
//
//	plane, err := controlplane.Start(context.Background(), controlplane.Options{})
//	...
//	defer plane.Stop()
//	...
//	err = mgr.Start(ctrl.SetupSignalHandler())
//
// Start returns an error if ctx ends, the server cannot listen on the address, the storage cannot be read, or the
// kubeconfig file is in use or cannot be written.
func Start(ctx context.Context, o Options) (*ControlPlane, error) {
	listener, err := o.prepare(ctx)
	if err != nil {
		return nil, errors.Join(err, o.closeStorage())
	}
	c := &ControlPlane{done: make(chan struct{})}
	if c.storage, err = o.openStorage(); err != nil {
		return nil, errors.Join(err, closeListener(listener))
	}
	err = c.start(o, listener, nil)
	if err == nil && o.KubeconfigFile != "" {
		err = kubeconfigfile.Write(o.KubeconfigFile, c.Kubeconfig())
	}
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return nil, errors.Join(err, c.shutDown())
	}
	c.runUntil(ctx)
	return c, nil
}

// prepare checks the options and listens, before Start opens the storage or makes a data directory.
func (o *Options) prepare(ctx context.Context) (net.Listener, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if _, err := authz.ParseModes(o.AuthorizationMode); err != nil {
		return nil, err
	}
	if err := o.Audit.Check(); err != nil {
		return nil, err
	}
	if err := checkServingNames(o.ServingNames); err != nil {
		return nil, err
	}
	if err := o.checkKubeconfigFile(); err != nil {
		return nil, err
	}
	if o.Listen == "" {
		return nil, nil
	}
	return listen(o.Listen)
}

// runUntil makes the control plane run until ctx ends, Stop is called, or it fails.
func (c *ControlPlane) runUntil(ctx context.Context) {
	ctx, c.stop = context.WithCancel(ctx)
	go c.run(ctx)
}

// compressAfter is how long an object must be unused before it may be compressed in memory, with a data directory or a
// snapshot.
const compressAfter = 10 * time.Second

// openStorage returns the storage of the options.
func (o *Options) openStorage() (storage.Store, error) {
	switch {
	case o.DataDir != "" && o.Snapshot != "":
		return nil, errors.Join(errors.New("DataDir and Snapshot are mutually exclusive: flyball snapshot restore makes a data directory"), o.closeStorage())
	case (o.DataDir != "" || o.Snapshot != "") && o.Storage != nil:
		return nil, errors.Join(errors.New("with DataDir or Snapshot, there must be no Storage"), o.closeStorage())
	case o.Snapshot != "":
		return loadSnapshot(o.Snapshot, memory.Options{CompressAfter: compressAfter})
	case o.DataDir != "":
		return datadir.Open(o.DataDir, datadir.Options{
			Memory: memory.Options{CompressAfter: compressAfter},
			Logf:   func(format string, args ...any) { klog.Warningf(format, args...) },
		})
	case o.Storage != nil:
		return o.Storage, nil
	}
	return memory.New(memory.Options{}), nil
}

// closeStorage closes the storage of the options, if they have one.
func (o *Options) closeStorage() error {
	if o.Storage == nil {
		return nil
	}
	return o.Storage.Close()
}

// start starts the parts in the order of their dependencies. On error, c holds the parts that have started. origin is the
// control plane that c is a fork of, or nil. The controllers of a fork start later. The listener, which is nil without
// [Options.Listen], belongs to start. It listens already, so that clients that come during the start need not come again.
func (c *ControlPlane) start(o Options, listener net.Listener, origin *ControlPlane) (err error) {
	defer func() {
		if c.https == nil {
			err = errors.Join(err, closeListener(listener))
		}
	}()
	if listener, err = c.samePort(&o, listener); err != nil {
		return err
	}
	if origin == nil {
		for _, message := range o.Controllers.Missing() {
			klog.Warning(message)
		}
	}
	if err := c.loadIdentity(origin); err != nil {
		return err
	}
	server, err := c.serverOptions(&o)
	if err != nil {
		return err
	}
	if !o.WithoutControllers {
		if err := c.prepareControllers(&o, &server, origin != nil); err != nil {
			return err
		}
	}
	if origin != nil {
		server.ForkOf = origin.server
	}
	if c.server, err = apiserver.New(server); err != nil {
		return err
	}
	c.options = o
	c.transport = newInProcess(c.server, administrator)
	c.kubelets.transport = c.transport
	if o.Listen != "" {
		hosts := append([]string{c.server.ServiceIP().String()}, o.ServingNames...)
		if o.AdvertiseAddress.IsValid() {
			hosts = append(hosts, o.AdvertiseAddress.String())
		}
		if c.https, err = serveHTTPS(o.Listen, listener, c.identity.keys.clients, o.ServingCertificate, c.server, hosts...); err != nil {
			return fmt.Errorf("certificates: %w", err)
		}
	}
	if err := c.server.Advertise(c.advertised(o.AdvertiseAddress)); err != nil {
		return err
	}
	if c.controllers == nil || origin != nil {
		return nil
	}
	return c.startControllers()
}

// serverOptions returns the options of the API server, without the options that the controllers need.
func (c *ControlPlane) serverOptions(o *Options) (apiserver.Options, error) {
	keys, aggregation := c.identity.keys, c.identity.aggregation
	if o.ServiceAccounts.SigningKey == nil {
		o.ServiceAccounts.SigningKey = keys.serviceAccounts
	}
	authentication := authn.Config{Tokens: o.Tokens, RequestHeader: o.RequestHeader, WithoutAnonymous: o.WithoutAnonymous}
	if o.Listen != "" {
		authentication.ClientCA = keys.clients.pool()
		if len(o.ClientCA) > 0 && !authentication.ClientCA.AppendCertsFromPEM(o.ClientCA) {
			return apiserver.Options{}, errors.New("the client CA has no certificate in PEM")
		}
		aggregation.ClientCA = slices.Concat(aggregation.ClientCA, o.ClientCA)
	}
	return apiserver.Options{
		Storage:                     c.storage,
		Authentication:              authentication,
		AuthorizationMode:           o.AuthorizationMode,
		Admission:                   o.admissionOptions(),
		MaxRequestsInFlight:         o.MaxRequestsInFlight,
		MaxMutatingRequestsInFlight: o.MaxMutatingRequestsInFlight,
		Audit:                       o.Audit,
		Aggregation:                 aggregation,
		DialWebhook:                 o.DialWebhook,
		LoopbackPorts:               o.LoopbackPorts,
		ServiceAccounts:             o.ServiceAccounts,
		ServiceNetwork:              o.ServiceNetwork,
		DeletionDelay:               o.DeletionDelay,
		Transformers:                o.Transformers,
		ReadyChecks:                 o.ReadyChecks,
		Shared:                      o.Shared,
		RemovedVersions:             o.RemovedVersions,
		WithoutFastPath:             o.WithoutFastPath,
	}, nil
}

// prepareControllers makes the controller manager, and adds to the options of the API server what the controllers need.
func (c *ControlPlane) prepareControllers(o *Options, server *apiserver.Options, fork bool) (err error) {
	o.complete(c.identity.keys.clients)
	c.handlers = o.Controllers.Pods.Handlers
	if c.controllers, err = newControllerManager(o.Logger, o.Controllers, o.Console); err != nil {
		return err
	}
	server.ReadyChecks = slices.Concat(server.ReadyChecks, c.controllers.readyChecks())
	server.Warnings, server.Simulated, server.Usage = o.Controllers.Warnings, o.Controllers.Pods.Simulates, o.Controllers.Usage()
	c.kubelets.simulates = o.Controllers.Pods.Simulates
	server.Kubelet = c.kubelets.of
	if !slices.Contains(o.Controllers.Without, "pods") {
		server.SimulatedAddress = o.Controllers.Pods.SimulatesAddress
	}
	if !fork { // which has them
		server.Objects, err = o.manifests()
	}
	return err
}

// startControllers starts the controllers.
func (c *ControlPlane) startControllers() error {
	o := c.options.Controllers
	var err error
	if o.ConfigFor, err = c.identities(); err != nil {
		return err
	}
	c.connectPods(&o.Pods)
	if err := c.applyStages(); err != nil {
		return err
	}
	return c.controllers.start(o, c.options.Shared)
}

// checkKubeconfigFile returns an error if Start cannot or must not write the kubeconfig.
func (o *Options) checkKubeconfigFile() error {
	if o.KubeconfigFile == "" {
		return nil
	}
	if o.Listen == "" {
		return errors.New("KubeconfigFile needs Listen: clients of the process alone have no kubeconfig")
	}
	return kubeconfigfile.CheckUnused(o.KubeconfigFile)
}

// run waits until ctx ends or the listener fails, and then shuts down the control plane.
func (c *ControlPlane) run(ctx context.Context) {
	defer close(c.done)
	defer c.stop()
	var failed <-chan struct{}
	if c.https != nil {
		failed = c.https.done
	}
	var err error
	select {
	case <-ctx.Done():
	case <-failed:
		err = fmt.Errorf("serving %s: %w", c.https.url, c.https.err)
	}
	c.err = errors.Join(err, c.shutDown())
}

// complete sets the defaults of the controllers' options.
func (o *Options) complete(ca *authority) {
	if o.Logger.GetSink() == nil {
		o.Logger = klog.Background()
	}
	if len(o.Controllers.RootCA) == 0 {
		o.Controllers.RootCA = ca.pem()
		if o.ServingCertificate != nil {
			o.Controllers.RootCA = rootOf(o.ServingCertificate)
		}
	}
	if o.Nodes != nil {
		o.Controllers.Pods.Nodes = o.Nodes
	}
	if o.Controllers.ServiceNetwork = o.ServiceNetwork; !o.ServiceNetwork.IsValid() {
		o.Controllers.ServiceNetwork = core.DefaultServiceNetwork
	}
	if o.Controllers.Pods.Handlers == nil {
		o.Controllers.Pods.Handlers = &runtime.Handlers{}
	}
	if o.Controllers.Signer == nil {
		o.Controllers.Signer = &certificates.Authority{Certificate: ca.cert, Key: ca.key}
	}
}

// administrator is the user of in-process clients.
var administrator = &user.DefaultInfo{Name: "flyball-admin",
	Groups: []string{user.SystemPrivilegedGroup, user.AllAuthenticated}}

// Config returns the configuration of an in-process client with administrator rights and without a rate limit. The
// caller owns the configuration. Requests fail once the control plane has stopped. Connections that client-go upgrades to a
// WebSocket stay in the process, because of the field Proxy; see [ControlPlane.Dial] for SPDY.
func (c *ControlPlane) Config() *rest.Config {
	return &rest.Config{Host: "http://flyball.local", Transport: c.transport, Proxy: c.transport.proxy(), QPS: -1}
}

// Pods returns the handlers that execute containers and commands, and serve the ports of pods. A test registers Go functions
// with it. A fork has the registrations that its control plane had at the time. Without controllers Pods returns nil.
func (c *ControlPlane) Pods() *runtime.Handlers { return c.handlers }

// Kubeconfig returns the content of an administrator's kubeconfig for HTTPS, or nil without [Options.Listen]. It
// contains a private key.
func (c *ControlPlane) Kubeconfig() []byte {
	if c.https == nil {
		return nil
	}
	return c.https.kubeconfig
}

// URL returns the URL of the HTTPS server, or "" without [Options.Listen].
func (c *ControlPlane) URL() string {
	if c.https == nil {
		return ""
	}
	return c.https.url
}

// address returns the address of the HTTPS server, or the zero value without a server.
func (c *ControlPlane) address() netip.AddrPort {
	if c.https == nil {
		return netip.AddrPort{}
	}
	address, _ := netip.ParseAddrPort(c.https.listener.Addr().String())
	return address
}

// advertised returns the address of the HTTPS server. If instead is valid, it replaces the IP address.
func (c *ControlPlane) advertised(instead netip.Addr) netip.AddrPort {
	address := c.address()
	if instead.IsValid() && address.IsValid() {
		return netip.AddrPortFrom(instead, address.Port())
	}
	return address
}

// Storage returns the storage, which the control plane closes when it stops. Another part of the program that writes to it
// must be expected: see Options.Shared.
func (c *ControlPlane) Storage() storage.Store { return c.storage }

// Stop stops the control plane and waits until it has ended: it stops the controllers, ends all watches, lets the
// requests in flight finish, and closes the storage. The server refuses new requests, and requests with an incomplete
// body. Stop returns the same error as [ControlPlane.Err]. Stop may be called several times, also after the context of
// [Start] has ended. A function that Stop waits for, such as OnFailure of [Options.Controllers], must not call Stop; it
// may cancel the context of [Start] instead.
func (c *ControlPlane) Stop() error {
	c.stop()
	<-c.done
	return c.err
}

// Checkpoint saves the current state for [ControlPlane.Reset]. It returns an error if the storage is not a
// [storage.Resetter]. The storage in memory is one.
func (c *ControlPlane) Checkpoint() error { return c.server.Checkpoint() }

// Reset brings the control plane back to the state of the last Checkpoint: objects, definitions with their custom
// resources, and allocations such as cluster IPs. See [apiserver.Server.Reset]. The controllers observe a reset like
// any other client.
func (c *ControlPlane) Reset() error { return c.server.Reset() }

// Done returns a channel that is closed when the control plane has ended and has released all resources.
func (c *ControlPlane) Done() <-chan struct{} { return c.done }

// Err returns nil until Done is closed. Afterwards it returns the reason why the control plane has ended: nil if
// [ControlPlane.Stop] or the context of [Start] stopped it, and the failure otherwise. It includes errors of the
// shutdown.
//
// A failed controller does not end the control plane, but makes /readyz fail.
func (c *ControlPlane) Err() error {
	select {
	case <-c.done:
		return c.err
	default:
		return nil
	}
}

// shutDown stops the running parts in the reverse order of their dependencies.
func (c *ControlPlane) shutDown() error {
	var errs []error
	c.starting.Lock()
	c.stopped = true
	if c.controllers != nil {
		errs = append(errs, c.controllers.stop())
	}
	c.starting.Unlock()
	if c.server != nil {
		c.server.Stop()
	}
	if c.https != nil {
		errs = append(errs, c.https.stop())
	}
	if c.transport != nil {
		c.transport.drain()
	}
	return errors.Join(append(errs, c.storage.Close())...)
}
