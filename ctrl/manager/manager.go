// Package manager runs the controllers and other runnables of an operator.
//
// # Phases
//
// A manager starts its runnables in phases, each after the one before, and stops them in the
// opposite order:
//
//	HTTP servers      metrics, health probes, pprof, and every [Server] that needs no election
//	webhooks          webhook servers; the phase is over when they serve, because the caches may need
//	                  conversion webhooks
//	caches            clusters; the next phase starts when their caches are in sync
//	others            runnables that need no leader election
//	warm-up           sources of controllers with EnableWarmup
//	leader election   waits until this replica leads, if there is an election
//	leader-only       all other runnables, controllers among them
//
// A runnable that is added while its phase runs starts at once. If a runnable returns an error, the
// manager stops all runnables and returns the error.
//
// # Stopping
//
// When the context of Start ends, the phases stop one after the other: controllers first, then the
// lease is released, caches and servers last. GracefulShutdownTimeout limits the total time. After
// Start has returned without an error, nothing that the manager started is still running.
//
// # Rest
//
// [WaitIdle] checks alternately the queues (no key is ready or in process, and how many keys ever became ready) and the
// caches (all earlier writes are delivered), until a round finds no change. A cache sends a list with the header
// Flyball-Watch-Progress, and the API server of this module then sends a bookmark on the open watches of the resource,
// like a progress request of etcd.
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
	"flyball.dev/ctrl/internal/development"
	"flyball.dev/ctrl/internal/names"
	"flyball.dev/ctrl/internal/observe"
	"flyball.dev/ctrl/leaderelection"
	metricsserver "flyball.dev/ctrl/metrics/server"
	"flyball.dev/ctrl/webhook"
	"flyball.dev/ctrl/webhook/conversion"
)

// Manager runs controllers and other runnables against a cluster. It is safe for concurrent use.
type Manager interface {
	// Cluster is the cluster that the runnables work on.
	cluster.Cluster

	// Add adds a runnable to its phase; it starts at once if that phase runs. It returns an error if
	// the manager is stopping.
	Add(Runnable) error

	// Elected is closed when this replica leads, or has started without leader election.
	Elected() <-chan struct{}

	// AddMetricsServerExtraHandler adds a handler for path to the metrics server, access to which
	// should be restricted. Without a metrics server it has no effect. It returns an error if the path
	// has a handler, or if the manager has started.
	AddMetricsServerExtraHandler(path string, handler http.Handler) error

	// AddHealthzCheck adds a check to the liveness endpoint. A check with the same name is replaced.
	// It returns an error if the manager has started.
	AddHealthzCheck(name string, check healthz.Checker) error

	// AddReadyzCheck is AddHealthzCheck for the readiness endpoint. [cache.Check] is a check that
	// fails while the cache cannot follow the API server.
	AddReadyzCheck(name string, check healthz.Checker) error

	// Start runs the manager until ctx ends or a runnable fails, and then stops it. It returns nil if
	// ctx ended and all runnables stopped within the grace period. It may be called once.
	//
	// If leader election is lost, it returns an error without waiting, and the program must exit at
	// once, as leader-only runnables may still be running.
	Start(ctx context.Context) error

	// GetWebhookServer returns the webhook server. The manager starts it only if this has been called.
	GetWebhookServer() webhook.Server

	// GetLogger returns the manager's logger.
	GetLogger() logr.Logger

	// GetControllerOptions returns the defaults of the manager's controllers.
	GetControllerOptions() config.Controller

	// GetConverterRegistry returns the converters of the conversion webhook.
	GetConverterRegistry() conversion.Registry
}

// Runnable is run by a manager.
type Runnable interface {
	// Start runs until ctx ends, and does not return before everything that it started has ended. If
	// it returns an error, the manager stops; if it returns nil, the manager continues.
	Start(context.Context) error
}

// RunnableFunc is a function that is a [Runnable].
type RunnableFunc func(context.Context) error

// Start calls the function.
func (r RunnableFunc) Start(ctx context.Context) error { return r(ctx) }

// LeaderElectionRunnable is a runnable that determines whether it runs only in the leader. Other
// runnables run only in the leader.
type LeaderElectionRunnable interface {
	NeedLeaderElection() bool
}

// hasCache is a runnable with a cache to wait for, such as a cluster.
type hasCache interface {
	Runnable
	GetCache() cache.Cache
}

// hasReadiness is a runnable that the next phase waits for.
type hasReadiness interface {
	// WaitForReady returns false if ctx ends before the runnable is ready.
	WaitForReady(ctx context.Context) bool
}

// manager implements Manager.
type manager struct {
	cluster.Cluster
	options   Options
	names     names.Set
	metrics   metricsserver.Server // nil if there is none
	pprof     net.Listener         // nil if there is none
	lifecycle *lifecycle
	monitor   *development.Monitor // nil if Options.Development is off
	recorder  *observe.Recorder    // nil if there is no console
	// healthProbeListener is nil if there is none. The tests of controller-runtime read the field by
	// reflection, by this name.
	healthProbeListener net.Listener

	webhooks   sync.Once // adds the webhook server
	converters conversion.Registry

	mu      sync.Mutex // guards what follows
	started bool
	// For WaitIdle.
	awaited       []awaited
	clusterCaches []cache.Cache
	healthz       map[string]healthz.Checker
	readyz        map[string]healthz.Checker
}

// New returns a manager for the API server of config. It listens on the addresses for health probes
// and pprof, and returns an error if one of them is in use, but makes no request before Start.
func New(config *rest.Config, options Options) (Manager, error) {
	if config == nil {
		return nil, errors.New("must specify Config")
	}
	if err := options.replaceDeprecated(); err != nil {
		return nil, err
	}
	options.complete()
	if err := options.checkLeaseDurations(); err != nil {
		return nil, err
	}
	options.defaultConsole(config)
	recorder := options.newRecorder()
	monitor := options.newMonitor(config, recorder)
	options.record(recorder)
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
	m := &manager{
		Cluster: cl, options: options,
		metrics: metrics, healthProbeListener: health, pprof: pprof,
		lifecycle:  newLifecycle(options, lock, monitor),
		monitor:    monitor,
		recorder:   recorder,
		converters: conversion.NewRegistry(),
		healthz:    map[string]healthz.Checker{},
		readyz:     map[string]healthz.Checker{},
	}
	return m, errors.Join(m.observe(cl), m.attachConsole())
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
		// The events of a lease in another cluster must not be recorded in this one.
		return leaderelection.NewResourceLock(options.LeaderElectionConfig, nil, o)
	}
	return leaderelection.NewResourceLock(cl.GetConfig(), cl, o)
}

// ControllerNames returns the names of this manager's controllers.
func (m *manager) ControllerNames() *names.Set { return &m.names }

func (m *manager) GetLogger() logr.Logger { return m.options.Logger }

func (m *manager) GetControllerOptions() config.Controller { return m.options.Controller }

func (m *manager) Elected() <-chan struct{} { return m.lifecycle.elected }

func (m *manager) Add(r Runnable) error {
	if r == nil {
		return errors.New("must provide a non-nil Runnable")
	}
	if server, ok := r.(webhook.Server); ok {
		m.attach(server)
	}
	if err := m.lifecycle.add(r); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if c, ok := r.(awaited); ok {
		m.awaited = append(m.awaited, c)
	}
	if c, ok := r.(hasCache); ok {
		m.clusterCaches = append(m.clusterCaches, c.GetCache())
	}
	return nil
}

func (m *manager) AddMetricsServerExtraHandler(path string, handler http.Handler) error {
	return m.beforeStart("metrics handler", func() error {
		if m.metrics == nil {
			m.options.Logger.Info("Ignoring the extra handler, as there is no metrics server", "path", path)
			return nil
		}
		return m.metrics.AddExtraHandler(path, handler)
	})
}

func (m *manager) AddHealthzCheck(name string, check healthz.Checker) error {
	if check == nil {
		return fmt.Errorf("must provide a non-nil check for healthz %q", name)
	}
	return m.beforeStart("healthz check", func() error { m.healthz[name] = check; return nil })
}

func (m *manager) AddReadyzCheck(name string, check healthz.Checker) error {
	if check == nil {
		return fmt.Errorf("must provide a non-nil check for readyz %q", name)
	}
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
	if err := m.checkBubble(); err != nil {
		m.closeListeners()
		return err
	}
	if err := errors.Join(m.addServers(), m.lifecycle.add(m.Cluster)); err != nil {
		return err
	}
	return m.lifecycle.run(ctx)
}
