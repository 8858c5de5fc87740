package controlplane

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"

	"flyball.dev/apiserver"
	"flyball.dev/apiserver/auditlog"
	"flyball.dev/storage/memory"
)

// identity has the keys of a control plane, and the certificates that they sign. Forks share it.
type identity struct {
	keys        *credentials
	aggregation apiserver.Aggregation
}

// loadIdentity sets the identity, from the storage or from another control plane.
func (c *ControlPlane) loadIdentity(origin *ControlPlane) error {
	if origin != nil {
		c.identity = origin.identity
		return nil
	}
	keys, err := loadCredentials(context.Background(), c.storage)
	if err != nil {
		return fmt.Errorf("keys: %w", err)
	}
	aggregation, err := keys.aggregation()
	if err != nil {
		return fmt.Errorf("certificates: %w", err)
	}
	c.identity = &identity{keys, aggregation}
	return nil
}

// ForkOptions are the options of a fork in which it differs from its control plane.
type ForkOptions struct {
	// Listen is the address and port for HTTPS. If Listen is empty, the fork serves only clients in the process.
	Listen string
	// WrapTransport is [Options.WrapTransport] of the fork, which does not have the one of its control plane. StartControllers
	// calls it.
	WrapTransport func(user string, transport http.RoundTripper) http.RoundTripper
	// Without are the names of further controllers that the fork does not have, by the names of kube-controller-manager.
	Without []string
}

// Fork returns a new control plane with the objects that this one has at the moment, in a few milliseconds, whatever
// their number. The two share memory, and nothing else: neither observes the other. They have the same authorities, keys,
// options and resource versions, except that the fork has no audit log and no kubeconfig file. Watches of the fork begin
// at the present resource version. The control plane may be in use meanwhile, and may stop before its fork.
//
// The controllers of the fork do not run before [ControlPlane.StartControllers]. Without them, for example, a new
// namespace has no service account, and a Deployment no pods.
//
// The fork of a control plane with a data directory is in memory: it does not use the directory, and its objects are gone when it
// stops.
//
// The fork runs until ctx ends, or its Stop is called. Fork returns an error unless the storage is in memory, or in a data
// directory.
func (c *ControlPlane) Fork(ctx context.Context, o ForkOptions) (*ControlPlane, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	store, ok := c.storage.(interface{ Fork() (*memory.Store, error) })
	if !ok {
		return nil, errors.New("the storage cannot be forked: only the storage in memory and a data directory can")
	}
	forked, err := store.Fork()
	if err != nil {
		return nil, err
	}
	options := c.options
	options.Listen, options.KubeconfigFile, options.Audit = o.Listen, "", auditlog.Options{}
	options.DataDir, options.Snapshot, options.Storage = "", "", nil
	options.WrapTransport = o.WrapTransport
	options.Controllers.Without = slices.Concat(options.Controllers.Without, o.Without)
	options.Controllers.Pods.Handlers = options.Controllers.Pods.Handlers.Clone()
	f := &ControlPlane{storage: forked, done: make(chan struct{})}
	var listener net.Listener
	if o.Listen != "" {
		if listener, err = listen(o.Listen); err != nil {
			return nil, errors.Join(err, forked.Close())
		}
	}
	if err := f.start(options, listener, c); err != nil {
		return nil, errors.Join(err, f.shutDown())
	}
	f.runUntil(ctx)
	return f, nil
}

// StartControllers starts the controllers of a control plane that [ControlPlane.Fork] has returned. It returns an error
// if they run, or if the control plane is WithoutControllers or has stopped.
func (c *ControlPlane) StartControllers() error {
	c.starting.Lock()
	defer c.starting.Unlock()
	switch {
	case c.controllers == nil:
		return errors.New("the control plane is without controllers")
	case c.stopped:
		return errStopped
	case c.controllers.cancel != nil:
		return errors.New("the controllers run")
	}
	return c.startControllers()
}
