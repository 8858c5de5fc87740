// Package controlplane is a whole Kubernetes control plane in one process: storage, API server and
// controllers, started and stopped together.
//
// Clients in the process reach it without a socket, with [ControlPlane.Config]. With
// [Options.Listen] it also serves HTTPS, for any client with the [ControlPlane.Kubeconfig]. Both
// see the same objects. Any number of control planes can run in one process.
package controlplane

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"flyball.dev/apiserver"
	"flyball.dev/apiserver/admission"
	"flyball.dev/apiserver/auditlog"
	"flyball.dev/apiserver/authn"
	"flyball.dev/apiserver/resource"
	"flyball.dev/apiserver/serviceaccount"
	"flyball.dev/controllers"
	"flyball.dev/controllers/certificates"
	"flyball.dev/controllers/pods"
	kubeconfigfile "flyball.dev/internal/kubeconfig"
	"flyball.dev/storage"
	"flyball.dev/storage/memory"
)

// KubernetesVersion is the version of Kubernetes whose API is served.
const KubernetesVersion = "v" + resource.Release

// Options configure a control plane. With the zero value it stores objects in memory, runs all
// controllers, and can be reached in-process only.
type Options struct {
	// Listen is the address and port for HTTPS, such as "127.0.0.1:6443"; with port 0, a free port
	// is used. If it is empty, no socket is opened.
	Listen string
	// KubeconfigFile, if not empty, is the file that Start writes the kubeconfig of the administrator to
	// when the server answers. The file has mode 0600. Its directory is created if necessary. Start fails,
	// and changes nothing, if the file is the kubeconfig of a control plane that runs, or not one that a control
	// plane has written. It needs Listen. Stop
	// leaves the file, for which client/config.GetConfig says that nobody answers.
	KubeconfigFile string
	// ServingCertificate is the certificate of the HTTPS server, by default one that the authority of
	// this control plane signs. The kubeconfig then has the last certificate of its chain as the
	// authority.
	ServingCertificate *tls.Certificate
	// ClientCA are authorities, in PEM, whose client certificates are accepted beside those of the
	// control plane's own.
	ClientCA []byte
	// RequestHeader, if not nil, authenticates users by headers that a trusted proxy sends.
	RequestHeader *authn.RequestHeader
	// WithoutAnonymous refuses requests without credentials, also for health checks.
	WithoutAnonymous bool
	// AdvertiseAddress is the address in the endpoints of the Service kubernetes, by default that of
	// Listen; see [apiserver.Server.Advertise].
	AdvertiseAddress netip.Addr
	// ServiceAccounts configures the tokens of service accounts, by default with a new key.
	ServiceAccounts serviceaccount.Options
	// ServiceNetwork is the range of cluster IPs, of IPv4, by default 10.96.0.0/12.
	ServiceNetwork netip.Prefix
	// DeletionDelay is for how long an object that is marked as being deleted is kept if it could be
	// removed at once, such as a pod that is deleted without a grace period, or an object whose last
	// finalizer has been removed. kube-apiserver with etcd takes some milliseconds for that, in which
	// clients can observe the object; by default it is removed immediately. The delay ends with the
	// request, and must be shorter than one may take, a minute.
	DeletionDelay time.Duration
	// Tokens are the bearer tokens that are accepted beside client certificates, with their users.
	Tokens map[string]*user.DefaultInfo
	// AuthorizationMode is how requests are authorized: "RBAC", the default, by roles and bindings;
	// "Node", which lets the user system:node:NAME in the group system:nodes access what the pods of
	// that node need, and runs the admission plugin NodeRestriction; "Node,RBAC", by both; or "AlwaysAllow". The controllers are authorized like other
	// users, so they need "RBAC" or "AlwaysAllow".
	AuthorizationMode string
	// MaxRequestsInFlight limits the non-mutating requests in flight, by default to 400, and
	// MaxMutatingRequestsInFlight the mutating ones, by default to 200; a negative number means no
	// limit. Requests above the limit get 429 Too Many Requests. Watches and other long-running
	// requests do not count, and members of system:masters, such as the administrator, are exempt.
	MaxRequestsInFlight, MaxMutatingRequestsInFlight int
	// Storage stores the objects; by default in memory, where objects that nobody uses are not
	// compressed (see memory.Options.CompressAfter). The control plane closes it when it stops, and
	// Start when it returns an error.
	Storage storage.Store
	// Controllers selects and configures the control plane's controllers. Its RootCA is by default
	// the certificate of the authority of this control plane, and its Signer that authority. Its
	// ConfigFor is replaced: the controllers make their requests in the process, each with its identity.
	Controllers controllers.Options
	// Admission selects the API server's admission plugins. Without the controllers that they need,
	// ServiceAccount, which refuses pods in namespaces without a service account,
	// StorageObjectInUseProtection, whose finalizers must be removed, and TaintNodesByCondition, whose
	// taint must be removed, are disabled unless enabled by their names.
	Admission admission.Options
	// Audit configures the audit log. By default there is none.
	Audit auditlog.Options
	// DialWebhook connects to webhooks and extension API servers, by default over TCP. It must be safe
	// for concurrent use.
	DialWebhook func(ctx context.Context, network, address string) (net.Conn, error)
	// Logger is the logger of the controllers. They log errors; at level 1 their start and stop,
	// and at level 2 the events that they record. By default it is klog's, which Kubernetes'
	// libraries in the API server use too, and which logs to standard error.
	Logger logr.Logger
	// WithoutControllers runs the API server alone.
	WithoutControllers bool
	// WithoutFastPath serves every request with the handlers of k8s.io/apiserver, also those that the API
	// server serves with shorter code of its own. The responses are the same, and take longer.
	WithoutFastPath bool
}

// ControlPlane is a running control plane. Its methods may be called from several goroutines at
// once.
type ControlPlane struct {
	storage     storage.Store
	server      *apiserver.Server
	transport   *inProcess
	authority   *authority
	https       *httpsServer       // nil without Options.Listen
	controllers *controllerManager // nil without controllers

	stop context.CancelFunc // requests the shutdown
	done chan struct{}      // closed after the shutdown
	err  error              // written before done is closed
}

// Start starts a control plane, which is ready for requests when Start returns. It runs until ctx
// ends or [ControlPlane.Stop] is called, or until it fails; [ControlPlane.Done] and
// [ControlPlane.Err] report that it has ended and why. If ctx ends before the control plane is
// ready, Start stops what it has started and returns the error of ctx.
//
// A manager that works on the control plane still needs it when the manager's own context ends: to
// finish its reconciles, to record their events and to release its lease. So a program that has
// both should not pass them the same context, but start the control plane with a context of its
// own, and stop it when the manager's Start has returned:
//
//	plane, err := controlplane.Start(context.Background(), controlplane.Options{})
//	...
//	defer plane.Stop()
//	...
//	err = mgr.Start(ctrl.SetupSignalHandler())
//
// Possible errors: ctx has ended; the address cannot be listened on; the storage cannot be read; the
// kubeconfig file is in use or cannot be written.
func Start(ctx context.Context, o Options) (*ControlPlane, error) {
	c := &ControlPlane{storage: o.Storage, done: make(chan struct{})}
	if c.storage == nil {
		c.storage = memory.New(memory.Options{})
	}
	err := ctx.Err()
	if err == nil {
		err = o.checkKubeconfigFile()
	}
	if err == nil {
		err = c.start(o)
	}
	if err == nil && o.KubeconfigFile != "" {
		err = kubeconfigfile.Write(o.KubeconfigFile, c.Kubeconfig())
	}
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return nil, errors.Join(err, c.shutDown())
	}
	ctx, c.stop = context.WithCancel(ctx)
	go c.run(ctx)
	return c, nil
}

// start starts the parts, each before those that need it. Those that have started are in c even if
// it returns an error.
func (c *ControlPlane) start(o Options) error {
	var listener net.Listener
	if o.Listen != "" { // first, so that clients that come during the start need not come again
		var err error
		if listener, err = listen(o.Listen); err != nil {
			return err
		}
		defer func() {
			if c.https == nil {
				listener.Close()
			}
		}()
	}
	ca, err := newAuthority()
	if err != nil {
		return fmt.Errorf("certificates: %w", err)
	}
	c.authority = ca
	aggregation, err := newAggregation(ca)
	if err != nil {
		return fmt.Errorf("certificates: %w", err)
	}
	authentication := authn.Config{Tokens: o.Tokens, RequestHeader: o.RequestHeader, WithoutAnonymous: o.WithoutAnonymous}
	if o.Listen != "" {
		authentication.ClientCA = ca.pool()
		if len(o.ClientCA) > 0 && !authentication.ClientCA.AppendCertsFromPEM(o.ClientCA) {
			return errors.New("the client CA has no certificate in PEM")
		}
		aggregation.ClientCA = append(aggregation.ClientCA, o.ClientCA...)
	}
	options := apiserver.Options{
		Storage:                     c.storage,
		Authentication:              authentication,
		AuthorizationMode:           o.AuthorizationMode,
		Admission:                   o.admissionOptions(),
		MaxRequestsInFlight:         o.MaxRequestsInFlight,
		MaxMutatingRequestsInFlight: o.MaxMutatingRequestsInFlight,
		Audit:                       o.Audit,
		Aggregation:                 aggregation,
		DialWebhook:                 o.DialWebhook,
		ServiceAccounts:             o.ServiceAccounts,
		ServiceNetwork:              o.ServiceNetwork,
		DeletionDelay:               o.DeletionDelay,
		WithoutFastPath:             o.WithoutFastPath,
	}
	if !o.WithoutControllers {
		o.complete(ca)
		if c.controllers, err = newControllerManager(o.Logger, o.Controllers); err != nil {
			return err
		}
		options.ReadyChecks = c.controllers.readyChecks()
		options.Warnings, options.Simulated = o.Controllers.Warnings, pods.Simulated
		if options.Objects, err = o.manifests(); err != nil {
			return err
		}
	}
	if c.server, err = apiserver.New(options); err != nil {
		return err
	}
	c.transport = newInProcess(c.server, administrator)
	if o.Listen != "" {
		hosts := []string{c.server.ServiceIP().String()}
		if o.AdvertiseAddress.IsValid() {
			hosts = append(hosts, o.AdvertiseAddress.String())
		}
		if c.https, err = serveHTTPS(o.Listen, listener, ca, o.ServingCertificate, c.server, hosts...); err != nil {
			return fmt.Errorf("certificates: %w", err)
		}
	}
	if err := c.server.Advertise(c.advertised(o.AdvertiseAddress)); err != nil {
		return err
	}
	if c.controllers == nil {
		return nil
	}
	if o.Controllers.ConfigFor, err = c.identities(); err != nil {
		return err
	}
	return c.controllers.start(o.Controllers)
}

// checkKubeconfigFile returns an error if the kubeconfig could not be written, or must not.
func (o *Options) checkKubeconfigFile() error {
	if o.KubeconfigFile == "" {
		return nil
	}
	if o.Listen == "" {
		return errors.New("KubeconfigFile needs Listen: clients of the process alone have no kubeconfig")
	}
	return kubeconfigfile.CheckUnused(o.KubeconfigFile)
}

// run waits until ctx ends or the listener fails, and then shuts everything down.
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
	if o.Controllers.Signer == nil {
		o.Controllers.Signer = &certificates.Authority{Certificate: ca.cert, Key: ca.key}
	}
}

// administrator is the user of in-process clients.
var administrator = &user.DefaultInfo{Name: "flyball-admin",
	Groups: []string{user.SystemPrivilegedGroup, user.AllAuthenticated}}

// Config returns the configuration of an in-process client, an administrator without a rate limit.
// The caller owns it. Requests fail when the control plane has stopped.
func (c *ControlPlane) Config() *rest.Config {
	return &rest.Config{Host: "http://flyball.local", Transport: c.transport, QPS: -1}
}

// Kubeconfig returns a kubeconfig file for HTTPS as an administrator, or nil without
// [Options.Listen]. It contains a private key.
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

// address returns the address of the HTTPS server, or the zero value without one.
func (c *ControlPlane) address() netip.AddrPort {
	if c.https == nil {
		return netip.AddrPort{}
	}
	address, _ := netip.ParseAddrPort(c.https.listener.Addr().String())
	return address
}

// advertised returns the address of the HTTPS server, with another one instead of its own if that is
// valid.
func (c *ControlPlane) advertised(instead netip.Addr) netip.AddrPort {
	address := c.address()
	if instead.IsValid() && address.IsValid() {
		return netip.AddrPortFrom(instead, address.Port())
	}
	return address
}

// Stop stops the control plane and waits until nothing of it is left: it stops the controllers,
// ends all watches, lets the requests in flight finish, and closes the storage. Requests that
// arrive meanwhile, or whose body has not arrived yet, are refused. It returns what
// [ControlPlane.Err] does. It may be called more than once, also while the context of [Start] ends.
// What Stop waits for must not call it, such as the function OnFailure of [Options.Controllers]; it
// may end the context of [Start] instead.
func (c *ControlPlane) Stop() error {
	c.stop()
	<-c.done
	return c.err
}

// Checkpoint makes the present state the one that [ControlPlane.Reset] returns to. It returns an
// error if the storage is not a [storage.Resetter], as that in memory is.
func (c *ControlPlane) Checkpoint() error { return c.server.Checkpoint() }

// Reset brings the control plane back to the state of the last Checkpoint: objects, definitions and
// what is served of them, and allocations such as cluster IPs. See [apiserver.Server.Reset]. The
// controllers notice it as any client does.
func (c *ControlPlane) Reset() error { return c.server.Reset() }

// Done returns a channel that is closed when the control plane has ended and nothing of it is left.
func (c *ControlPlane) Done() <-chan struct{} { return c.done }

// Err returns nil if Done is not closed yet. After that it returns why the control plane has ended:
// nil if it was stopped, by [ControlPlane.Stop] or by the end of the context of [Start], and else
// what has failed. Errors while it was stopping are included.
//
// The failure of a controller does not end the control plane, but makes /readyz fail.
func (c *ControlPlane) Err() error {
	select {
	case <-c.done:
		return c.err
	default:
		return nil
	}
}

// shutDown stops the parts that were started, each before those that it needs.
func (c *ControlPlane) shutDown() error {
	var errs []error
	if c.controllers != nil {
		errs = append(errs, c.controllers.stop())
	}
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
