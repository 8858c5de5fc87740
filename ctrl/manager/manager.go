// Package manager runs everything that an operator consists of.
//
// # Phases
//
// A manager starts its runnables in phases, each after the one before, and stops them in the
// opposite order:
//
//	HTTP servers      metrics, health probes, pprof, and every [Server] that serves always
//	caches            clusters; a phase is over when their caches are in sync
//	others            runnables that need no leader election
//	warm-up           sources of controllers that are to be ready before they lead
//	leader election   over when this replica leads, or at once if there is no election
//	leader-only       all other runnables, controllers among them
//
// A runnable that is added while its phase runs starts at once. When one runnable returns an error,
// the manager stops all of them and returns it.
//
// # Stopping
//
// When the context given to Start ends, every phase is told to stop and waited for in its turn:
// controllers first, then the lease is given up, caches and servers last. All of it together may
// take as long as GracefulShutdownTimeout. After Start has returned without an error, nothing that
// the manager started is left.
package manager

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"flyball.dev/ctrl/cache"
	"flyball.dev/ctrl/cluster"
	"flyball.dev/ctrl/config"
	"flyball.dev/ctrl/healthz"
	"flyball.dev/ctrl/internal/names"
	"flyball.dev/ctrl/leaderelection"
	metricsserver "flyball.dev/ctrl/metrics/server"
)

// Manager runs controllers and other runnables against a cluster. It is safe for concurrent use.
type Manager interface {
	// Cluster is the cluster that the runnables work on.
	cluster.Cluster

	// Add adds a runnable, which starts in its phase: at once if that phase runs. It returns an
	// error if the manager is stopping.
	Add(Runnable) error

	// Elected is closed when this replica leads, or has started without an election.
	Elected() <-chan struct{}

	// AddMetricsServerExtraHandler serves path on the metrics server, which should not be open to
	// everyone. Without a metrics server it does nothing. It returns an error if the path is taken,
	// or once the manager has started.
	AddMetricsServerExtraHandler(path string, handler http.Handler) error

	// AddHealthzCheck adds a check to the liveness endpoint. A check of the same name is replaced.
	// It returns an error once the manager has started.
	AddHealthzCheck(name string, check healthz.Checker) error

	// AddReadyzCheck adds a check to the readiness endpoint, like AddHealthzCheck. [cache.Check] is
	// one that fails while the cache cannot follow the API server.
	AddReadyzCheck(name string, check healthz.Checker) error

	// Start runs everything until ctx ends or a runnable fails, and stops it. It returns nil if ctx
	// ended and everything stopped in time, and may be called once.
	//
	// If the lease is lost, it returns an error without waiting for anything, and the program must
	// end at once: something that only a leader may do could still be running.
	Start(ctx context.Context) error

	// GetLogger returns the manager's logger.
	GetLogger() logr.Logger

	// GetControllerOptions returns the defaults of the manager's controllers.
	GetControllerOptions() config.Controller
}

// Runnable is something that a manager runs.
type Runnable interface {
	// Start runs until ctx ends, and does not return before everything it started has ended. If it
	// returns an error the manager stops; if it returns nil nothing follows.
	Start(context.Context) error
}

// RunnableFunc is a function that is a [Runnable].
type RunnableFunc func(context.Context) error

// Start calls the function.
func (r RunnableFunc) Start(ctx context.Context) error { return r(ctx) }

// LeaderElectionRunnable is a runnable that says whether it may run only in the leader. One that
// does not say so does.
type LeaderElectionRunnable interface {
	NeedLeaderElection() bool
}

// hasCache is a runnable with a cache to wait for, such as a cluster.
type hasCache interface {
	Runnable
	GetCache() cache.Cache
}

// warmupRunnable is a runnable that can do something before this replica leads. Warmup must end
// when its context does.
type warmupRunnable interface {
	Warmup(context.Context) error
}

// manager implements Manager. What it is asked about the cluster, the cluster answers.
type manager struct {
	cluster.Cluster
	options   Options
	names     names.Set
	metrics   metricsserver.Server // nil if there is none
	health    net.Listener         // nil if there is none
	pprof     net.Listener         // nil if there is none
	lifecycle *lifecycle

	mu      sync.Mutex // guards what follows
	started bool
	healthz map[string]healthz.Checker
	readyz  map[string]healthz.Checker
}

// New returns a manager for the cluster that config points to. It listens on the addresses for
// health probes and pprof, and so returns an error if one of them is in use, but talks to nobody
// before it is started.
func New(config *rest.Config, options Options) (Manager, error) {
	if config == nil {
		return nil, errors.New("must specify Config")
	}
	options.complete()
	cl, err := cluster.New(config, options.cluster)
	if err != nil {
		return nil, err
	}
	lock, err := newLock(cl, options)
	if err != nil {
		return nil, err
	}
	metrics, err := metricsserver.NewServer(options.Metrics, cl.GetConfig(), cl.GetHTTPClient())
	if err != nil {
		return nil, err
	}
	health, err := listen(options.HealthProbeBindAddress)
	if err != nil {
		return nil, err
	}
	pprof, err := listen(options.PprofBindAddress)
	if err != nil {
		if health != nil {
			_ = health.Close()
		}
		return nil, err
	}
	return &manager{
		Cluster: cl, options: options,
		metrics: metrics, health: health, pprof: pprof,
		lifecycle: newLifecycle(options, lock),
		healthz:   map[string]healthz.Checker{},
		readyz:    map[string]healthz.Checker{},
	}, nil
}

// newLock returns the lock for the leader election, or nil if there is no election.
func newLock(cl cluster.Cluster, options Options) (resourcelock.Interface, error) {
	if options.LeaderElection && options.LeaderElectionResourceLockInterface != nil {
		return options.LeaderElectionResourceLockInterface, nil
	}
	o := leaderelection.Options{
		LeaderElection:             options.LeaderElection,
		LeaderElectionResourceLock: options.LeaderElectionResourceLock,
		LeaderElectionNamespace:    options.LeaderElectionNamespace,
		LeaderElectionID:           options.LeaderElectionID,
		RenewDeadline:              *options.RenewDeadline,
		LeaderLabels:               options.LeaderElectionLabels,
	}
	if options.LeaderElectionConfig != nil {
		// The events of another cluster's lease do not belong into this one.
		return leaderelection.NewResourceLock(options.LeaderElectionConfig, nil, o)
	}
	return leaderelection.NewResourceLock(cl.GetConfig(), cl, o)
}

// ControllerNames keeps apart the names of this manager's controllers.
func (m *manager) ControllerNames() *names.Set { return &m.names }

func (m *manager) GetLogger() logr.Logger { return m.options.Logger }

func (m *manager) GetControllerOptions() config.Controller { return m.options.Controller }

func (m *manager) Elected() <-chan struct{} { return m.lifecycle.elected }

func (m *manager) Add(r Runnable) error { return m.lifecycle.add(r) }

func (m *manager) AddMetricsServerExtraHandler(path string, handler http.Handler) error {
	return m.beforeStart("metrics handler", func() error {
		if m.metrics == nil {
			m.options.Logger.Info("There is no metrics server, the extra handler is ignored", "path", path)
			return nil
		}
		return m.metrics.AddExtraHandler(path, handler)
	})
}

func (m *manager) AddHealthzCheck(name string, check healthz.Checker) error {
	return m.beforeStart("healthz check", func() error { m.healthz[name] = check; return nil })
}

func (m *manager) AddReadyzCheck(name string, check healthz.Checker) error {
	return m.beforeStart("readyz check", func() error { m.readyz[name] = check; return nil })
}

// beforeStart calls add unless the manager has started.
func (m *manager) beforeStart(what string, add func() error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.started {
		return fmt.Errorf("unable to add new %s because the manager has already been started", what)
	}
	return add()
}

func (m *manager) Start(ctx context.Context) error {
	m.mu.Lock()
	again := m.started
	m.started = true
	m.mu.Unlock()
	if again {
		return errors.New("manager already started")
	}
	if err := errors.Join(m.addServers(), m.lifecycle.add(m.Cluster)); err != nil {
		return err
	}
	return m.lifecycle.run(ctx)
}
