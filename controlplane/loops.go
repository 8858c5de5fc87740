package controlplane

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"

	"flyball.dev/apiserver"
	"flyball.dev/controllers"
	"flyball.dev/ctrl/cache"
	"flyball.dev/ctrl/config"
	"flyball.dev/ctrl/manager"
	"flyball.dev/ctrl/metrics/server"
)

// startWithin is how long the loops' cache may take to be complete before the control plane is not ready.
const startWithin = 10 * time.Second

var errEnded = errors.New("the controllers have ended")

// loops are the controllers of a control plane, under a manager of their own.
type loops struct {
	names  []string
	logger logr.Logger
	cancel context.CancelFunc // nil before the start
	done   chan struct{}      // closed when all have ended
	err    error              // of the manager; read after done

	mu     sync.Mutex
	synced func() error     // checks the cache; nil before the start
	failed map[string]error // by the loop's name
}

// newLoops returns loops that are yet to be started.
func newLoops(logger logr.Logger, o controllers.Options) (*loops, error) {
	names, err := o.Names()
	if err != nil {
		return nil, err
	}
	return &loops{names: names, logger: logger, done: make(chan struct{}), failed: map[string]error{}}, nil
}

// start starts the controllers and returns without waiting for their caches.
func (l *loops) start(cfg *rest.Config, o controllers.Options) error {
	skipNames := true // several control planes may run in one process
	mgr, err := manager.New(cfg, manager.Options{
		// Users of the control plane do not need the info messages of its controllers.
		Logger:                 l.logger.V(1),
		Cache:                  cache.Options{DefaultWatchErrorHandler: (&watchErrors{logger: l.logger, last: map[string]time.Time{}}).log},
		Metrics:                server.Options{BindAddress: "0"},
		HealthProbeBindAddress: "0",
		Controller:             config.Controller{SkipNameValidation: &skipNames},
	})
	if err != nil {
		return fmt.Errorf("controllers: %w", err)
	}
	report := o.OnFailure
	o.OnFailure = func(loop string, err error) {
		l.fail(loop, err)
		if report != nil {
			report(loop, err)
		}
	}
	if err := controllers.AddAll(mgr, o); err != nil {
		return fmt.Errorf("controllers: %w", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	l.cancel = cancel
	l.mu.Lock()
	l.synced = syncedWithin(startWithin, mgr.GetCache())
	l.mu.Unlock()
	go func() {
		defer close(l.done)
		if l.err = mgr.Start(ctx); l.err != nil && ctx.Err() == nil {
			l.logger.Error(l.err, "The controllers have ended")
		}
	}()
	return nil
}

// watchErrors logs the errors of the loops' informers. A kind that is no longer served is no error, nor
// is a watch that breaks off once.
type watchErrors struct {
	logger logr.Logger

	mu   sync.Mutex
	last map[string]time.Time // by kind
}

// again is how soon after an error of a kind another one means that something is wrong.
const again = time.Minute

func (w *watchErrors) log(_ context.Context, r *toolscache.Reflector, err error) {
	kind, now := r.TypeDescription(), time.Now()
	logger := w.logger.WithValues("kind", kind)
	if apierrors.IsNotFound(err) {
		logger.V(1).Info("The kind is not served", "error", err.Error())
		return
	}
	w.mu.Lock()
	last, failed := w.last[kind]
	w.last[kind] = now
	w.mu.Unlock()
	if failed && now.Sub(last) < again {
		logger.Error(err, "Cannot list or watch, trying again")
	} else {
		logger.V(1).Info("Cannot list or watch, trying again", "error", err.Error())
	}
}

// fail records that a loop has failed.
func (l *loops) fail(name string, err error) {
	l.logger.Error(err, "A controller has ended", "controller", name)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failed[name] = errors.Join(l.failed[name], err)
}

// checks are what the loops contribute to the control plane's readiness: one check for each, and one for
// the cache that they share.
func (l *loops) checks() []apiserver.ReadyCheck {
	var checks []apiserver.ReadyCheck
	for _, name := range l.names {
		checks = append(checks, apiserver.ReadyCheck{Name: "controller/" + name, Check: func() error { return l.check(name) }})
	}
	return append(checks, apiserver.ReadyCheck{Name: "informer-sync", Check: l.checkCache})
}

func (l *loops) check(name string) error {
	select {
	case <-l.done:
		return errEnded
	default:
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failed[name]
}

func (l *loops) checkCache() error {
	l.mu.Lock()
	synced := l.synced
	l.mu.Unlock()
	if synced == nil {
		return nil
	}
	return synced()
}

// syncedWithin returns a check that a cache, which is started now, is filled in time and kept up to date.
func syncedWithin(limit time.Duration, c cache.Cache) func() error {
	began, check := time.Now(), cache.Check(c, 0)
	return func() error {
		if time.Since(began) < limit {
			return nil
		}
		return check(nil)
	}
}

// stop stops the controllers, if they were started.
func (l *loops) stop() error {
	if l.cancel == nil {
		return nil
	}
	l.cancel()
	<-l.done
	return l.err
}
