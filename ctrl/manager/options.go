package manager

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/ptr"

	"flyball.dev/ctrl/cache"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/cluster"
	"flyball.dev/ctrl/config"
	"flyball.dev/ctrl/log"
	metricsserver "flyball.dev/ctrl/metrics/server"
	"flyball.dev/ctrl/webhook"
)

// BaseContextFunc returns the context that the contexts of runnables are derived from.
type BaseContextFunc func() context.Context

// Options are the options of a manager. The zero value is valid.
type Options struct {
	// Scheme maps Go types to kinds. By default it is client-go's, with the built-in kinds; most
	// programs set one with their own kinds.
	Scheme *runtime.Scheme

	// MapperProvider creates the mapper from kinds to resources.
	MapperProvider func(c *rest.Config, httpClient *http.Client) (meta.RESTMapper, error)

	// Cache are the options of the cache. By default it has all objects, in all namespaces, of the
	// kinds that are read or watched.
	Cache cache.Options

	// NewCache creates the cache, with the options in Cache.
	NewCache cache.NewCacheFunc

	// Client are the options of the client. By default it reads from the cache and writes to the
	// API server.
	Client client.Options

	// NewClient creates the client, with the options in Client.
	NewClient client.NewClientFunc

	// Logger is the manager's logger, log.Log by default.
	Logger logr.Logger

	// LeaderElection enables leader election: only one of several replicas runs leader-only runnables.
	LeaderElection bool

	// LeaderElectionResourceLock is the kind of lock, "leases" by default.
	LeaderElectionResourceLock string

	// LeaderElectionNamespace is the namespace of the lock. In a pod it defaults to the pod's
	// namespace.
	LeaderElectionNamespace string

	// LeaderElectionID is the name of the lock. Leader election requires it.
	LeaderElectionID string

	// LeaderElectionConfig is the configuration for the cluster with the lock, if it is another one.
	// Events of the lock are then not recorded.
	LeaderElectionConfig *rest.Config

	// LeaderElectionReleaseOnCancel releases the lock when the manager stops, so that other replicas
	// do not wait until it expires. The program must exit when Start returns.
	LeaderElectionReleaseOnCancel bool

	// LeaderElectionLabels are put on the lock by the replica that holds it.
	LeaderElectionLabels map[string]string

	// LeaderElectionResourceLockInterface is a custom lock. The other options of the lock are then
	// ignored.
	LeaderElectionResourceLockInterface resourcelock.Interface

	// LeaseDuration is how long after the last renewal other replicas wait before they acquire the
	// lock. 15 seconds if nil.
	LeaseDuration *time.Duration

	// RenewDeadline is how long the leader tries to renew the lock before it stops leading. 10
	// seconds if nil.
	RenewDeadline *time.Duration

	// RetryPeriod is the time between attempts. 2 seconds if nil.
	RetryPeriod *time.Duration

	// Metrics are the options of the metrics server. By default it listens on port 8080.
	Metrics metricsserver.Options

	// HealthProbeBindAddress is the host and port for health probes. Empty or "0" disables them.
	HealthProbeBindAddress string

	// ReadinessEndpointName is the path of the readiness probe, "/readyz" by default.
	ReadinessEndpointName string

	// LivenessEndpointName is the path of the liveness probe, "/healthz" by default.
	LivenessEndpointName string

	// PprofBindAddress is the host and port for profiles. They may contain secrets, so access should
	// be restricted. Empty or "0" disables them.
	PprofBindAddress string

	// WebhookServer is the webhook server, by default one of webhook.NewServer without options. It is
	// started only if GetWebhookServer is called, as the builder of webhooks does.
	WebhookServer webhook.Server

	// BaseContext returns the context that the contexts of runnables are derived from. It is called
	// once, by Start. The background context by default. If it has no logger, the manager's is
	// added.
	BaseContext BaseContextFunc

	// EventBroadcaster writes the events of the core API.
	//
	// Deprecated: the manager writes them itself. A broadcaster that is set here is not shut down.
	EventBroadcaster record.EventBroadcaster

	// GracefulShutdownTimeout is how long Start waits for all runnables to stop: 30 seconds if nil,
	// not at all if zero, without a limit if negative.
	GracefulShutdownTimeout *time.Duration

	// Controller holds the defaults of the manager's controllers.
	Controller config.Controller

	// Development makes the manager warn of common mistakes of operators: hot loops, fights over fields,
	// owners that do not exist or stand in another namespace, finalizers that nobody removes, status
	// behind its generation, adoption by selectors, many conflicts, and two leaders. Each is logged
	// once, with the object, the field and the writer; docs/development.md explains them. What is
	// observed is what the operator does anyway: the writes of the manager's client (not of a
	// NewClient), the events of its informers, and its reconciles. No reconcile waits for it; before
	// some warnings the API server is asked, with at most 5 requests a second. If nil, it is on for a
	// control plane in this process, but for the lab's. It is Flyball's own.
	Development *bool

	// OnWarning is called with each warning of Development, instead of logging it; tests can fail in
	// it. It may be called concurrently, also by a worker, which it blocks. It is Flyball's own.
	OnWarning func(config.Warning)

	// Console, if not nil, shows what the controllers do, on a page that the manager serves:
	//
	//	ctrl.Options{Console: console.New(console.Options{})}
	//
	// Package console makes it. The package is not linked otherwise. A console belongs to one manager. If the program
	// imports package console/always, as flyball dev lets it do, the default is a console. It is Flyball's own.
	Console Console

	// MetricsBindAddress is Metrics.BindAddress. It was an option of controller-runtime before v0.16.
	//
	// Deprecated: use Metrics.BindAddress.
	MetricsBindAddress string

	// Port is the port of the webhook server. It was an option of controller-runtime before v0.16.
	//
	// Deprecated: use WebhookServer.
	Port int

	// ClientDisableCacheFor is added to Client.Cache.DisableFor. It was an option of
	// controller-runtime before v0.16.
	//
	// Deprecated: use Client.Cache.DisableFor.
	ClientDisableCacheFor []client.Object
}

// complete sets the defaults of options that are not set.
func (o *Options) complete() {
	o.LeaseDuration = cmp.Or(o.LeaseDuration, ptr.To(15*time.Second))
	o.RenewDeadline = cmp.Or(o.RenewDeadline, ptr.To(10*time.Second))
	o.RetryPeriod = cmp.Or(o.RetryPeriod, ptr.To(2*time.Second))
	o.GracefulShutdownTimeout = cmp.Or(o.GracefulShutdownTimeout, ptr.To(30*time.Second))
	o.ReadinessEndpointName = cmp.Or(o.ReadinessEndpointName, "/readyz")
	o.LivenessEndpointName = cmp.Or(o.LivenessEndpointName, "/healthz")
	if o.WebhookServer == nil {
		o.WebhookServer = webhook.NewServer(webhook.Options{})
	}
	if o.BaseContext == nil {
		o.BaseContext = context.Background
	}
	if o.Logger.GetSink() == nil {
		o.Logger = log.Current()
	}
	if o.Controller.Logger.GetSink() == nil {
		o.Controller.Logger = o.Logger
	}
}

// checkLeaseDurations returns an error if the durations of the leader election contradict each
// other. The elector has the same rules, but it is created only when the manager is started.
func (o *Options) checkLeaseDurations() error {
	lease, deadline, retry := *o.LeaseDuration, *o.RenewDeadline, *o.RetryPeriod
	switch {
	case !o.LeaderElection:
		return nil
	case retry < 1:
		return fmt.Errorf("the leader election needs a RetryPeriod greater than zero, not %v", retry)
	case deadline <= time.Duration(leaderelection.JitterFactor*float64(retry)):
		return fmt.Errorf("the leader election needs a RenewDeadline greater than %v times RetryPeriod: it is %v, and RetryPeriod is %v",
			leaderelection.JitterFactor, deadline, retry)
	case lease <= deadline:
		return fmt.Errorf("the leader election needs a LeaseDuration greater than RenewDeadline: it is %v, and RenewDeadline is %v",
			lease, deadline)
	default:
		return nil
	}
}

// cluster sets the options of the cluster.
func (o *Options) cluster(c *cluster.Options) {
	c.Scheme = o.Scheme
	c.MapperProvider = o.MapperProvider
	c.Logger = o.Logger
	c.NewCache = o.NewCache
	c.NewClient = o.NewClient
	c.Cache = o.Cache
	c.Client = o.Client
	//lint:ignore SA1019 programs still set it
	c.EventBroadcaster = o.EventBroadcaster
}

// runnableContext returns the context from which the contexts of runnables are derived.
func (o *Options) runnableContext() context.Context {
	ctx := o.BaseContext()
	if _, err := logr.FromContext(ctx); err != nil {
		ctx = log.IntoContext(ctx, o.Logger)
	}
	return ctx
}
