package manager

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/go-logr/logr"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"flyball.dev/ctrl/internal/development"
)

var errLeaderElectionLost = errors.New("leader election lost")

// election is the phase that waits until this replica leads. It renews the lease until it is
// stopped, which is after the leader-only runnables have ended.
type election struct {
	options Options
	lock    resourcelock.Interface // nil without an election
	failed  func(error)
	monitor *development.Monitor // nil without one

	releasing atomic.Bool
	cancel    context.CancelFunc // nil until started
	over      chan struct{}      // closed when the elector has ended
}

func (e *election) String() string { return "leader election" }

// start starts the leader election, and waits until this process leads or ctx ends. Without a lock
// it returns at once.
func (e *election) start(ctx context.Context) error {
	if e.lock == nil {
		return nil
	}
	leading := make(chan struct{})
	if e.monitor != nil {
		e.monitor.Wait()
	}
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock:            e.lock,
		Name:            e.options.LeaderElectionID,
		LeaseDuration:   *e.options.LeaseDuration,
		RenewDeadline:   *e.options.RenewDeadline,
		RetryPeriod:     *e.options.RetryPeriod,
		ReleaseOnCancel: e.options.LeaderElectionReleaseOnCancel,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) {
				if e.monitor != nil {
					e.monitor.Lead()
				}
				close(leading)
			},
			OnStoppedLeading: func() {
				if e.releasing.Load() {
					return
				}
				if e.monitor != nil {
					e.monitor.LostLease(*e.options.LeaseDuration - *e.options.RenewDeadline)
				}
				e.failed(errLeaderElectionLost)
			},
		},
	})
	if err != nil {
		return fmt.Errorf("failed during initialization leader election process: %w", err)
	}
	// The lease is renewed after ctx has ended, until the leader-only runnables have ended.
	held := logr.NewContext(context.WithoutCancel(ctx), e.options.Logger.WithName("leaderelection"))
	held, e.cancel = context.WithCancel(held)
	e.over = make(chan struct{})
	go func() {
		defer close(e.over)
		elector.Run(held)
	}()
	select {
	case <-leading:
	case <-ctx.Done():
	}
	return nil
}

// stop ends the renewal and releases the lease if LeaderElectionReleaseOnCancel is set. It does not
// stop waiting when ctx ends, as a lease that is not released delays other replicas; each request
// has a timeout.
func (e *election) stop(context.Context) {
	if e.cancel == nil {
		return
	}
	e.releasing.Store(true)
	e.cancel()
	<-e.over
}
