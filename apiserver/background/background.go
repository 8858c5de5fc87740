// Package background keeps the objects that the API server itself is responsible for: the objects that every cluster has,
// the Service kubernetes with its endpoints and its ServiceCIDR, the objects of API priority and fairness, the APIServices
// of the served group versions, and the ConfigMap by which extension API servers authenticate users. kube-apiserver does
// this in its post-start hooks and in the controllers of its control plane.
//
// The writes pass neither admission nor the pipeline of requests. A start creates the objects before the server serves
// requests; a fork has the objects of the other server. The Service comes with the address. Afterwards, watches of the
// storage lead to another reconciliation. If several servers share a storage, the leases of the servers and the Service
// are also reconciled every ten seconds.
package background

import (
	"context"
	"net/netip"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/storage/value"
	"k8s.io/klog/v2"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"flyball.dev/apiserver/kinds"
	"flyball.dev/apiserver/resource"
	"flyball.dev/storage"
)

// Config has the parts of a server that the controllers need.
type Config struct {
	Storage      storage.Store
	Catalog      *resource.Catalog
	Transformers value.ResourceTransformers // nil means no encryption
	// Exclusive calls a function that writes while the server is not being reset. It does not call the function if the
	// server stops.
	Exclusive func(func())
	// Objects are created at the start if they do not exist; see apiserver.Options.
	Objects []kinds.Object
	// RBAC says that the roles and bindings are needed.
	RBAC           bool
	ServiceNetwork netip.Prefix
	// Shared says that other servers may use the storage at the same time.
	Shared         bool
	Authentication Authentication
	// ForkOf, if not nil, has the controllers of the server that this one is a fork of. They have created the objects. New
	// reads it, and does not keep it.
	ForkOf *Controllers
}

// Controllers keep the objects of a server.
type Controllers struct {
	config        Config
	objects       *objects
	loops         *loops
	registrations registrations
	// address is the advertised address, and reconciled the address for which the Service kubernetes was reconciled in the
	// server that this one is a fork of.
	address, reconciled netip.AddrPort
}

// New returns controllers that stop when a context is done.
func New(stopping context.Context, config Config) *Controllers {
	forkOf := config.ForkOf
	config.ForkOf = nil // so that the controllers do not keep a stopped server alive
	c := &Controllers{
		config:  config,
		objects: &objects{storage: config.Storage, catalog: config.Catalog, transformers: config.Transformers},
		loops:   &loops{storage: config.Storage, stopping: stopping, exclusive: config.Exclusive, fork: forkOf != nil},
	}
	c.registrations = registrations{objects: c.objects, atStart: sets.New[string](), synced: sets.New[string]()}
	if forkOf != nil {
		c.reconciled, c.registrations.atStart, c.registrations.fork = forkOf.address, forkOf.registrations.atStart, true
	}
	return c
}

// Start creates the objects that every cluster has, and starts the controllers. In a fork, it creates nothing, and the
// controllers begin after ForkDelay, or at the first change.
func (c *Controllers) Start() error {
	if !c.loops.fork {
		if err := c.bootstrap(); err != nil {
			return err
		}
	}
	for _, keep := range []func() error{c.keepFlowControl, c.keepAuthentication, c.keepRegistrations} {
		if err := keep(); err != nil {
			return err
		}
	}
	return nil
}

// Advertise reconciles the Service "kubernetes" in the namespace default, with its Endpoints and its EndpointSlice, the
// default ServiceCIDR and the system namespaces: now and after changes. A fork with the address of the other server skips
// the first time. Errors are logged, and Advertise retries. It must be called at most once. For the address see
// apiserver.Server.Advertise.
//
//upstream:none The reconciliation has the references.
func (c *Controllers) Advertise(address netip.AddrPort) error {
	k := c.newKubernetesService(advertised(address))
	c.address = k.address
	if c.address != c.reconciled {
		if err := k.reconcile(); err != nil {
			klog.ErrorS(err, "Cannot reconcile the Service kubernetes")
		}
	}
	changed, err := c.loops.changes(k.keys())
	if err != nil {
		return err
	}
	c.loops.work.Go(func() { k.run(changed) })
	return nil
}

// RegisterVersions reconciles the APIServices of the served group versions now. The caller must keep Config.Exclusive
// from running a function meanwhile.
func (c *Controllers) RegisterVersions() error { return c.registrations.reconcile() }

// APIServices returns the APIServices.
func (c *Controllers) APIServices(ctx context.Context) ([]apiregistrationv1.APIService, error) {
	return c.registrations.list(ctx)
}

// UpdateAPIServiceStatus changes the status of an APIService. It returns nil without a write if the server is stopping.
func (c *Controllers) UpdateAPIServiceStatus(ctx context.Context, name string, change func(*apiregistrationv1.APIService)) (err error) {
	c.loops.exclusive(func() {
		err = c.objects.replaceStatus(ctx, apiServices, name, func(obj runtime.Object) { change(obj.(*apiregistrationv1.APIService)) })
	})
	return err
}

// Wait waits until the controllers have stopped.
func (c *Controllers) Wait() { c.loops.work.Wait() }
