package manager

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	kerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"flyball.dev/ctrl/internal/development"
	"flyball.dev/ctrl/internal/optional"
	"flyball.dev/ctrl/webhook"
)

// phase is a step of the lifecycle.
type phase interface {
	// start starts the phase and returns when the next one may start, or when ctx ends.
	start(ctx context.Context) error
	// stop stops the phase, or prevents its start, and waits until it has ended, or until ctx ends.
	stop(ctx context.Context)
	String() string
}

// lifecycle is the ordered list of phases: they start in this order and stop in reverse.
type lifecycle struct {
	options Options
	phases  []phase
	elected chan struct{}

	servers, webhooks, caches, others, warmup, leaders *group

	fail     context.CancelCauseFunc // ends the run; set by run
	stopping atomic.Bool
}

func newLifecycle(options Options, lock resourcelock.Interface, monitor *development.Monitor) *lifecycle {
	l := &lifecycle{options: options, elected: make(chan struct{})}
	newGroup := func(name string) *group {
		return &group{name: name, base: options.runnableContext, failed: l.failed}
	}
	l.servers = newGroup("HTTP servers")
	l.webhooks = newGroup("webhooks")
	l.caches = newGroup("caches")
	l.others = newGroup("others")
	l.warmup = newGroup("warm-up")
	l.leaders = newGroup("leader-only")
	l.phases = []phase{
		l.servers,
		l.webhooks,
		l.caches,
		l.others,
		l.warmup,
		&election{options: options, lock: lock, failed: l.failed, monitor: monitor},
		l.leaders,
	}
	return l
}

// add adds r to its phase.
func (l *lifecycle) add(r Runnable) error {
	if w, ok := r.(optional.Warmer); ok {
		if err := l.warmup.add(member{run: w.Warmup}); err != nil {
			return err
		}
	}
	g, m := l.leaders, member{run: r.Start}
	switch r := r.(type) {
	case *Server:
		if !r.NeedLeaderElection() {
			g = l.servers
		}
	case hasCache:
		g, m.synced = l.caches, r.GetCache().WaitForCacheSync
	case webhook.Server:
		g = l.webhooks
		if r, ok := r.(hasReadiness); ok {
			m.synced = r.WaitForReady
		}
	case LeaderElectionRunnable:
		if !r.NeedLeaderElection() {
			g = l.others
		}
	}
	return g.add(m)
}

// failed ends the run because a runnable returned err.
func (l *lifecycle) failed(err error) {
	if !l.stopping.Load() {
		l.fail(err)
	} else if !errors.Is(err, context.Canceled) {
		l.options.Logger.Error(err, "A runnable returned an error while the manager was stopping")
	}
}

// run starts the phases, waits until ctx ends or a runnable fails, and stops the phases.
func (l *lifecycle) run(ctx context.Context) error {
	// The cause with which the caller's context ended is not an error of the manager.
	parent := ctx
	ctx, l.fail = context.WithCancelCause(context.WithoutCancel(parent))
	defer l.fail(nil)
	defer context.AfterFunc(parent, func() { l.fail(nil) })()
	err := l.forward(ctx)
	if err == nil {
		<-ctx.Done()
		err = cause(ctx)
	}
	l.stopping.Store(true)
	l.fail(err)

	grace := *l.options.GracefulShutdownTimeout
	if errors.Is(err, errLeaderElectionLost) {
		grace = 0
	}
	if late := l.backward(grace); err == nil {
		err = late
	} else if late != nil {
		err = kerrors.NewAggregate([]error{err, late})
	}
	return err
}

func (l *lifecycle) forward(ctx context.Context) error {
	for _, p := range l.phases {
		l.options.Logger.V(1).Info("Starting", "phase", p.String())
		if err := p.start(ctx); err != nil {
			return fmt.Errorf("failed to start %s: %w", p, err)
		}
		if ctx.Err() != nil {
			return cause(ctx)
		}
	}
	close(l.elected)
	return nil
}

func (l *lifecycle) backward(grace time.Duration) error {
	ctx, cancel := context.Background(), func() {}
	if grace >= 0 {
		ctx, cancel = context.WithTimeout(ctx, grace)
	}
	defer cancel()
	for _, p := range slices.Backward(l.phases) {
		l.options.Logger.V(1).Info("Stopping", "phase", p.String())
		p.stop(ctx)
	}
	if grace > 0 && ctx.Err() != nil {
		return fmt.Errorf("failed waiting for all runnables to end within grace period of %s: %w", grace, ctx.Err())
	}
	return nil
}

// cause returns the error that ended ctx, or nil if there was none.
func cause(ctx context.Context) error {
	if err := context.Cause(ctx); err != ctx.Err() {
		return err
	}
	return nil
}
