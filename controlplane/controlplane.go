// Package controlplane is a whole Kubernetes control plane in one process: storage, API server and
// controllers, started and stopped together.
//
// It can be reached in-process, without a socket, by the configuration of [ControlPlane.Config]; and,
// where [Options.Listen] asks for it, over HTTPS by anything that reads a kubeconfig. Both see the same
// objects. Any number of control planes can run in one process.
package controlplane

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/go-logr/logr"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"flyball.dev/apiserver"
	"flyball.dev/apiserver/admission"
	"flyball.dev/apiserver/authn"
	"flyball.dev/apiserver/authz"
	"flyball.dev/controllers"
	"flyball.dev/storage"
	"flyball.dev/storage/memory"
)

// Options say what a control plane has. The zero value is a control plane in memory with all its
// controllers, which is reached in-process only.
type Options struct {
	// Listen is the address and port for HTTPS, such as "127.0.0.1:6443"; port 0 takes a free one.
	// Empty means none: no socket is opened and nothing can be reached from outside.
	Listen string
	// Tokens are bearer tokens that the server knows, beside client certificates, each with its user.
	Tokens map[string]*user.DefaultInfo
	// MaxRequestsInFlight is how many requests that only read may be under way at once, by default
	// 400, and MaxMutatingRequestsInFlight how many others, by default 200; a negative number is no
	// limit. More are answered with 429 Too Many Requests. Watches and other long-running requests do
	// not count, and members of system:masters, such as the administrator, are never refused.
	MaxRequestsInFlight, MaxMutatingRequestsInFlight int
	// Storage keeps the objects; by default a new memory. The control plane closes it when it stops.
	Storage storage.Store
	// Controllers chooses among the control plane's own loops and directs them. Without a RootCA, the
	// certificate that signs those of this control plane is published.
	Controllers controllers.Options
	// Admission chooses among the API server's admission plugins. ServiceAccount, which refuses pods in
	// namespaces without a service account, does not run without the loop that creates these.
	Admission admission.Options
	// Logger gets what the controllers log: errors, at level 1 that they start and stop, at level 2
	// the events that they record, and more above. By default it is that of klog, as for Kubernetes'
	// libraries in the API server, which logs to standard error.
	Logger logr.Logger
	// WithoutControllers runs the API server alone.
	WithoutControllers bool
}

// ControlPlane is a running control plane.
type ControlPlane struct {
	storage     storage.Store
	server      *apiserver.Server
	transport   *inProcess
	https       *httpsServer // nil without
	controllers *loops       // nil without
	stopped     func() error // does the work of Stop, once
}

// Start starts a control plane, which is ready for requests when Start returns. Its life is bounded by
// Stop alone; a ctx that has ended keeps it from starting.
//
// Possible errors: the address cannot be listened on; the storage cannot be read.
func Start(ctx context.Context, o Options) (_ *ControlPlane, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	c := &ControlPlane{storage: o.Storage}
	c.stopped = sync.OnceValue(c.stop)
	if c.storage == nil {
		c.storage = memory.New(memory.Options{})
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Stop())
		}
	}()
	who := authn.Config{Tokens: o.Tokens}
	ca, err := newAuthority()
	if err != nil {
		return nil, fmt.Errorf("certificates: %w", err)
	}
	if o.Listen != "" {
		who.ClientCA = ca.pool()
	}
	serving := apiserver.Options{
		Storage:                     c.storage,
		Authenticator:               authn.New(who),
		Authorizer:                  authz.New(),
		Admission:                   o.admissionOptions(),
		MaxRequestsInFlight:         o.MaxRequestsInFlight,
		MaxMutatingRequestsInFlight: o.MaxMutatingRequestsInFlight,
	}
	if !o.WithoutControllers {
		o.complete(ca)
		if c.controllers, err = newLoops(o.Logger, o.Controllers); err != nil {
			return nil, err
		}
		serving.ReadyChecks = c.controllers.checks()
	}
	if c.server, err = apiserver.New(serving); err != nil {
		return nil, err
	}
	c.transport = newInProcess(c.server, administrator)
	if o.Listen != "" {
		if c.https, err = listenHTTPS(o.Listen, ca, c.server); err != nil {
			return nil, err
		}
	}
	c.server.Advertise(c.address())
	if c.controllers != nil {
		err = c.controllers.start(c.Config(), o.Controllers)
	}
	return c, err
}

// complete sets the defaults of the controllers' options.
func (o *Options) complete(ca *authority) {
	if o.Logger.GetSink() == nil {
		o.Logger = klog.Background()
	}
	if len(o.Controllers.RootCA) == 0 {
		o.Controllers.RootCA = ca.pem()
	}
}

var administrator = &user.DefaultInfo{Name: "flyball-admin", Groups: []string{user.SystemPrivilegedGroup, user.AllAuthenticated}}

// Config returns the configuration of an in-process client, an administrator without a rate limit.
// The caller owns it. Requests fail once the control plane has stopped.
func (c *ControlPlane) Config() *rest.Config {
	return &rest.Config{Host: "http://flyball.local", Transport: c.transport, QPS: -1}
}

// Kubeconfig returns a kubeconfig file for HTTPS as an administrator, with the keys in it, or nil
// without [Options.Listen].
func (c *ControlPlane) Kubeconfig() []byte {
	if c.https == nil {
		return nil
	}
	return c.https.kubeconfig
}

// URL is where HTTPS is served, or empty.
func (c *ControlPlane) URL() string {
	if c.https == nil {
		return ""
	}
	return c.https.url
}

// Stop stops the controllers, ends all watches, lets the requests under way finish, and closes the
// storage. Requests that come while it does, or whose body has not come yet, are refused. Nothing of
// the control plane is left when it returns. It may be called more than once, by several goroutines,
// and answers the same each time.
func (c *ControlPlane) Stop() error { return c.stopped() }

func (c *ControlPlane) stop() error {
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
	if c.storage != nil {
		errs = append(errs, c.storage.Close())
	}
	return errors.Join(errs...)
}
