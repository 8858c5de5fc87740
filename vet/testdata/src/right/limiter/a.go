// Package limiter paces the calls of an API by a limiter that sleeps.
package limiter

import (
	"context"
	"sync"
	"time"

	"api"
	"golang.org/x/time/rate"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

type Reconciler struct {
	client.Client
	Limiter  *rate.Limiter
	Throttle *throttle
	Pacer    Pacer
	Bucket   *Bucket
}

func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	app := &api.App{}
	if err := r.Get(ctx, req.NamespacedName, app); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if err := r.Limiter.Wait(ctx); err != nil {
		return ctrl.Result{}, err
	}
	if err := r.Throttle.Wait(ctx); err != nil {
		return ctrl.Result{}, err
	}
	r.Throttle.sleep()
	r.Bucket.Take()
	r.Pacer.Take()
	return ctrl.Result{}, nil
}

// Pacer is how other packages pace.
type Pacer interface{ Take() time.Time }

// throttle lets one call through in each interval.
type throttle struct {
	mu       sync.Mutex
	interval time.Duration
	last     time.Time
}

// Wait waits for the interval to end.
func (t *throttle) Wait(ctx context.Context) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if time.Since(t.last) < t.interval {
		select {
		case <-time.After(t.interval - time.Since(t.last)):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	t.last = time.Now()
	return nil
}

// sleep sleeps until the interval has ended.
func (t *throttle) sleep() {
	t.mu.Lock()
	defer t.mu.Unlock()
	next := t.last.Add(t.interval)
	if wait := time.Until(next); wait > 0 {
		time.Sleep(wait)
	}
	for time.Now().Before(next) {
		time.Sleep(time.Millisecond)
	}
	if next.After(time.Now()) {
		time.Sleep(time.Until(next))
	}
	t.last = time.Now()
}

// Bucket has ten tokens a second.
type Bucket struct {
	mu     sync.Mutex
	tokens int
	filled time.Time
}

var _ Pacer = &Bucket{}

// Take takes a token.
func (b *Bucket) Take() time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	if time.Since(b.filled) > time.Second {
		b.tokens, b.filled = 10, time.Now()
	}
	if b.tokens--; b.tokens < 0 {
		time.Sleep(time.Second)
	}
	return b.filled
}
