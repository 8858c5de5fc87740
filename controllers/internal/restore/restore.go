// Package restore lets a controller note what objects hold already, before it gives the first object something.
//
//upstream:none Each controller of Kubernetes lists its objects in a way of its own.
package restore

import (
	"context"
	"sync"
)

// Once calls a function until a call succeeds. The zero Once is ready to use.
type Once struct {
	mu   sync.Mutex
	done bool
}

// Do calls a function, unless a call has succeeded before, and returns the error. Several goroutines may call Do at once: the
// calls follow each other.
func (o *Once) Do(ctx context.Context, restore func(context.Context) error) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.done {
		return nil
	}
	err := restore(ctx)
	o.done = err == nil
	return err
}
