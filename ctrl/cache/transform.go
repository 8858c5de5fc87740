package cache

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"flyball.dev/ctrl/client"
)

// transformLock is held while an object of a kind is transformed: one that a watch
// tells of, in whatever form and namespace, or one that this process has written or
// reads live. It is a mutex that can be waited for for some time only.
type transformLock chan struct{}

// transformLock returns the lock of a kind.
func (c *informerCache) transformLock(gvk schema.GroupVersionKind) transformLock {
	l, _ := c.transformLocks.LoadOrStore(gvk, make(transformLock, 1))
	return l.(transformLock)
}

// lockTimeout is how long writes and live reads wait for the lock. They have it at
// once, unless it is the transform itself that writes, or reads what it has written.
const lockTimeout = time.Second

// errLocked is why an object was not transformed: another one is all the time.
var errLocked = errors.New("another object of the kind is being transformed; a transform must not write or read its own kind")

// lock waits until the lock is free, ctx is done or, unless it is zero, a time is
// over.
func (l transformLock) lock(ctx context.Context, timeout time.Duration) error {
	select {
	case l <- struct{}{}:
		return nil
	default:
	}
	var over <-chan time.Time
	if timeout > 0 {
		timer := time.NewTimer(timeout)
		defer timer.Stop()
		over = timer.C
	}
	select {
	case l <- struct{}{}:
		return nil
	case <-over:
		return errLocked
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (l transformLock) unlock() { <-l }

// transform calls the transform of the part's config, which the caller knows to
// exist, under the lock.
func (p *part) transform(ctx context.Context, obj client.Object, timeout time.Duration) (any, error) {
	if err := p.transforming.lock(ctx, timeout); err != nil {
		return nil, err
	}
	defer p.transforming.unlock()
	return p.config.Transform(obj)
}
