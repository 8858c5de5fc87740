package controlplane

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"

	"flyball.dev/apiserver"
	"flyball.dev/controllers"
	"flyball.dev/ctrl/cache"
	"flyball.dev/ctrl/config"
	"flyball.dev/ctrl/manager"
	"flyball.dev/ctrl/metrics/server"
	"flyball.dev/internal/clientscheme"
)

// syncTimeout is how long the cache of the controllers may take to sync before the check informer-sync fails.
const syncTimeout = 10 * time.Second

var errStoppedControllers = errors.New("the controllers have stopped")

// controllerManager runs the controllers of a control plane in a separate manager.
type controllerManager struct {
	console func() manager.Console // nil without a console
	names   []string
	logger  logr.Logger
	cancel  context.CancelFunc // nil before the start
	done    chan struct{}      // closed when the manager has returned
	err     error              // of the manager; read after done

	mu     sync.Mutex
	synced func() error     // checks the cache; nil before the start
	failed map[string]error // by the controller's name
}

// newControllerManager returns a controller manager that has not been started.
func newControllerManager(logger logr.Logger, o controllers.Options, console func() manager.Console) (*controllerManager, error) {
	names, err := o.Names()
	if err != nil {
		return nil, err
	}
	return &controllerManager{names: names, logger: logger, console: console, done: make(chan struct{}), failed: map[string]error{}}, nil
}

// The periods of the Lease of the controllers. A control plane that has ended is followed by another one within seconds.
const (
	leaseDuration = 6 * time.Second
	renewDeadline = 4 * time.Second
	retryPeriod   = time.Second
)

// start starts the controllers and returns without waiting for their caches. If other control planes share the storage,
// the controllers run while this control plane holds the Lease.
func (m *controllerManager) start(o controllers.Options, shared bool) error {
	onFailure := o.OnFailure
	o.OnFailure = func(controller string, err error) {
		m.fail(controller, err)
		if onFailure != nil {
			onFailure(controller, err)
		}
	}
	mgr, err := m.newManager(o, shared)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	m.cancel = cancel
	go func() {
		defer close(m.done)
		m.err = mgr.Start(ctx)
		for shared && m.err != nil && ctx.Err() == nil {
			m.err = m.startAgain(ctx, o, m.err)
		}
		if m.err != nil && ctx.Err() == nil {
			m.logger.Error(m.err, "The controllers have stopped")
		}
	}()
	return nil
}

// startAgain runs the controllers in a new manager, some time after an error has ended the last one, such as the loss of
// the Lease. It returns the error of the new manager, which cannot be made while the storage is out of reach.
func (m *controllerManager) startAgain(ctx context.Context, o controllers.Options, err error) error {
	m.logger.Error(err, "The controllers have stopped, and start again", "after", retryPeriod)
	select {
	case <-time.After(retryPeriod):
	case <-ctx.Done():
		return nil
	}
	mgr, err := m.newManager(o, true)
	if err != nil {
		return err
	}
	return mgr.Start(ctx)
}

// newManager returns a manager with the controllers.
//
//upstream:cmd/kube-controller-manager/app.CreateControllerContext
func (m *controllerManager) newManager(o controllers.Options, shared bool) (manager.Manager, error) {
	skipNames := true // several control planes may run in one process
	var console manager.Console
	if m.console != nil {
		console = m.console()
	}
	mgr, err := manager.New(o.ConfigFor(controllers.ManagerIdentity), manager.Options{
		Scheme:                        clientscheme.Scheme(),
		LeaderElection:                shared,
		LeaderElectionID:              "kube-controller-manager",
		LeaderElectionNamespace:       metav1.NamespaceSystem,
		LeaderElectionReleaseOnCancel: true,
		LeaseDuration:                 new(leaseDuration),
		RenewDeadline:                 new(renewDeadline),
		RetryPeriod:                   new(retryPeriod),
		// The info messages of the runtime are of little interest to users of a control plane.
		Logger: m.logger.V(1),
		Cache: cache.Options{
			// No controller reads the managed fields, and an update without them keeps them.
			DefaultTransform:         cache.TransformStripManagedFields(),
			DefaultWatchErrorHandler: (&watchErrors{logger: m.logger, last: map[string]time.Time{}}).log,
		},
		Metrics:                server.Options{BindAddress: "0"},
		HealthProbeBindAddress: "0",
		Controller:             config.Controller{SkipNameValidation: &skipNames},
		Console:                console,
		Development:            new(bool), // off: these are not the user's controllers
	})
	if err == nil {
		err = controllers.AddAll(mgr, o)
	}
	if err != nil {
		return nil, fmt.Errorf("controllers: %w", err)
	}
	m.mu.Lock()
	m.synced = syncedWithin(syncTimeout, mgr.GetCache())
	m.mu.Unlock()
	return mgr, nil
}

// watchErrors logs the errors of the controllers' informers. Two conditions are not logged as errors: a kind is no
// longer served, or a single watch fails.
type watchErrors struct {
	logger logr.Logger

	mu   sync.Mutex
	last map[string]time.Time // by kind
}

// repeatInterval is the interval within which a second error for the same kind is logged as an error.
const repeatInterval = time.Minute

// log is a toolscache.WatchErrorHandlerWithContext.
func (w *watchErrors) log(_ context.Context, r *toolscache.Reflector, err error) {
	kind, now := r.TypeDescription(), time.Now()
	logger := w.logger.WithValues("kind", kind)
	if apierrors.IsNotFound(err) {
		logger.V(1).Info("The kind is not served", "error", err.Error())
		return
	}
	if _, short := errors.AsType[*toolscache.VeryShortWatchError](err); short { // as when the server stops
		logger.V(1).Info("The watch ended early, trying again", "reason", err.Error())
		return
	}
	w.mu.Lock()
	last, failed := w.last[kind]
	w.last[kind] = now
	w.mu.Unlock()
	if failed && now.Sub(last) < repeatInterval {
		logger.Error(err, "Cannot list or watch, trying again")
	} else {
		logger.V(1).Info("Cannot list or watch, trying again", "error", err.Error())
	}
}

// fail records that a controller has ended with an error.
func (m *controllerManager) fail(name string, err error) {
	m.logger.Error(err, "A controller has ended", "controller", name)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.failed[name] = errors.Join(m.failed[name], err)
}

// readyChecks returns a readiness check for each controller and one for their shared cache.
func (m *controllerManager) readyChecks() []apiserver.ReadyCheck {
	var checks []apiserver.ReadyCheck
	for _, name := range m.names {
		checks = append(checks, apiserver.ReadyCheck{Name: "controller/" + name, Check: func(context.Context) error {
			return m.check(name)
		}})
	}
	return append(checks, apiserver.ReadyCheck{Name: "informer-sync", Check: m.checkCache})
}

// check returns the error that ended a controller, or nil.
func (m *controllerManager) check(name string) error {
	select {
	case <-m.done:
		return errStoppedControllers
	default:
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.failed[name]
}

// checkCache is the check informer-sync.
func (m *controllerManager) checkCache(context.Context) error {
	m.mu.Lock()
	synced := m.synced
	m.mu.Unlock()
	if synced == nil {
		return nil
	}
	return synced()
}

// syncedWithin returns a check that a cache syncs within limit from now, and then stays up to date.
func syncedWithin(limit time.Duration, c cache.Cache) func() error {
	start, check := time.Now(), cache.Check(c, 0)
	return func() error {
		if time.Since(start) < limit {
			return nil
		}
		return check(nil)
	}
}

// stop stops the controllers if they run, and returns the error of their manager.
func (m *controllerManager) stop() error {
	if m.cancel == nil {
		return nil
	}
	m.cancel()
	<-m.done
	return m.err
}
