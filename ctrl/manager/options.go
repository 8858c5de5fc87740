package manager

import (
	"context"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/ptr"

	"flyball.dev/ctrl/cache"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/cluster"
	"flyball.dev/ctrl/config"
	"flyball.dev/ctrl/log"
	metricsserver "flyball.dev/ctrl/metrics/server"
)

// BaseContextFunc returns the context that the contexts of runnables are derived from.
type BaseContextFunc func() context.Context

// Options are the choices to be made for a manager. The zero value is a good one.
type Options struct {
	// Scheme says which Go types stand for which kinds. By default it is that of client-go, with
	// Kubernetes' own kinds; most programs pass one with their kinds.
	Scheme *runtime.Scheme

	// MapperProvider makes the mapper from kinds to resources.
	MapperProvider func(c *rest.Config, httpClient *http.Client) (meta.RESTMapper, error)

	// Cache are the options of the cache. By default it holds every object, in all namespaces, of
	// the kinds that are asked for.
	Cache cache.Options

	// NewCache makes the cache, with the options in Cache.
	NewCache cache.NewCacheFunc

	// Client are the options of the client. By default it reads from the cache and writes to the
	// API server.
	Client client.Options

	// NewClient makes the client, with the options in Client.
	NewClient client.NewClientFunc

	// Logger is the manager's logger, log.Log by default.
	Logger logr.Logger

	// LeaderElection lets only one of several replicas run what needs a leader.
	LeaderElection bool

	// LeaderElectionResourceLock is the kind of lock, "leases" by default.
	LeaderElectionResourceLock string

	// LeaderElectionNamespace is the namespace of the lock. By default it is the one that the
	// program runs in, when it runs in a pod.
	LeaderElectionNamespace string

	// LeaderElectionID is the name of the lock. An election needs one.
	LeaderElectionID string

	// LeaderElectionConfig points to the cluster that has the lock, if it is another one. Events
	// about the lock are then not recorded.
	LeaderElectionConfig *rest.Config

	// LeaderElectionReleaseOnCancel gives the lock up when the manager stops, so that another
	// replica need not wait until it expires. The program must end when Start returns.
	LeaderElectionReleaseOnCancel bool

	// LeaderElectionLabels are put on the lock by the replica that holds it.
	LeaderElectionLabels map[string]string

	// LeaderElectionResourceLockInterface is a lock of one's own. The options that describe the
	// lock are then not used.
	LeaderElectionResourceLockInterface resourcelock.Interface

	// LeaseDuration is how long after the last renewal others wait before they take the lock. 15
	// seconds if nil.
	LeaseDuration *time.Duration

	// RenewDeadline is how long the leader tries to renew the lock before it gives up. 10 seconds
	// if nil.
	RenewDeadline *time.Duration

	// RetryPeriod is the time between tries. 2 seconds if nil.
	RetryPeriod *time.Duration

	// Metrics are the options of the metrics server. By default it listens on port 8080.
	Metrics metricsserver.Options

	// HealthProbeBindAddress is the host and port for health probes. "0" or nothing means none.
	HealthProbeBindAddress string

	// ReadinessEndpointName is the path of the readiness probe, "/readyz" by default.
	ReadinessEndpointName string

	// LivenessEndpointName is the path of the liveness probe, "/healthz" by default.
	LivenessEndpointName string

	// PprofBindAddress is the host and port for profiles, which may hold secrets and should not be
	// open to everyone. "0" or nothing means none.
	PprofBindAddress string

	// BaseContext returns the context that the contexts of runnables are derived from. It is called
	// once, by Start. The background context by default. A logger in it is theirs; otherwise they
	// get the manager's.
	BaseContext BaseContextFunc

	// EventBroadcaster sends the events that recorders record.
	//
	// Deprecated: the manager makes one and stops it. One that is passed in is not stopped.
	EventBroadcaster record.EventBroadcaster

	// GracefulShutdownTimeout is how long Start waits for everything to stop: 30 seconds if nil, not
	// at all if zero, as long as it takes if negative.
	GracefulShutdownTimeout *time.Duration

	// Controller holds the defaults of the manager's controllers.
	Controller config.Controller
}

// complete fills in everything that is still open.
func (o *Options) complete() {
	setDefault(&o.LeaseDuration, ptr.To(15*time.Second))
	setDefault(&o.RenewDeadline, ptr.To(10*time.Second))
	setDefault(&o.RetryPeriod, ptr.To(2*time.Second))
	setDefault(&o.GracefulShutdownTimeout, ptr.To(30*time.Second))
	setDefault(&o.ReadinessEndpointName, "/readyz")
	setDefault(&o.LivenessEndpointName, "/healthz")
	if o.BaseContext == nil {
		o.BaseContext = context.Background
	}
	if o.Logger.GetSink() == nil {
		o.Logger = log.Log
	}
	if o.Controller.Logger.GetSink() == nil {
		o.Controller.Logger = o.Logger
	}
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// cluster passes on what concerns the cluster.
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

// runnableContext is the context that every phase derives its own from.
func (o *Options) runnableContext() context.Context {
	ctx := o.BaseContext()
	if _, err := logr.FromContext(ctx); err != nil {
		ctx = log.IntoContext(ctx, o.Logger)
	}
	return ctx
}
