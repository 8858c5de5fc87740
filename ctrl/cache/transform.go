package cache

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"

	"flyball.dev/ctrl/client"
)

// transformLock is a mutex with a timeout. It serializes the transforms of one kind: for watches in
// all representations and namespaces, for this process's writes, and for live reads.
type transformLock chan struct{}

// transformLock returns the lock of a kind.
func (c *informerCache) transformLock(gvk schema.GroupVersionKind) transformLock {
	l, _ := c.transformLocks.LoadOrStore(gvk, make(transformLock, 1))
	return l.(transformLock)
}

// lockTimeout is how long writes and live reads wait for the lock. It prevents a deadlock when the
// transform itself writes, or reads what it has written.
const lockTimeout = time.Second

// errLocked is returned when the lock was not free in time.
var errLocked = errors.New(
	"timed out waiting for the transform of another object; a transform must not write or read its own kind")

// lock waits for the lock until ctx is done or, if timeout is not zero, for at most that long.
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

// transform calls the transform of the partition with the lock held.
func (p *partition) transform(
	ctx context.Context, transform toolscache.TransformFunc, obj client.Object, timeout time.Duration,
) (any, error) {
	if err := p.transformLock.lock(ctx, timeout); err != nil {
		return nil, err
	}
	defer p.transformLock.unlock()
	return transform(obj)
}
