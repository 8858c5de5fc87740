package example

import (
	"context"
	"errors"
	"fmt"

	"flyball.dev/ctrl"
	"flyball.dev/ctrl/manager"
)

// Operator is a running operator, one replica of it. Its methods must not be called concurrently.
type Operator struct {
	Manager ctrl.Manager
	cancel  context.CancelFunc
	done    chan error // nil when it has stopped
}

// start runs a manager until ctx ends or the operator is stopped.
func start(ctx context.Context, mgr ctrl.Manager) *Operator {
	ctx, cancel := context.WithCancel(ctx)
	o := &Operator{Manager: mgr, cancel: cancel, done: make(chan error, 1)}
	go func() {
		err := mgr.Start(ctx)
		if err != nil {
			err = fmt.Errorf("the operator failed: %w", err)
		}
		o.done <- err
	}()
	return o
}

// Elected waits until the operator is elected or, without leader election, until its webhooks are
// installed and its caches have synced.
func (o *Operator) Elected(ctx context.Context) error {
	select {
	case <-o.Manager.Elected():
		return nil
	case err := <-o.done:
		o.done <- err
		return errors.Join(errors.New("the operator has stopped"), err)
	case <-ctx.Done():
		return errors.New("the operator was not elected")
	}
}

// Idle waits until the operator has nothing to do but requests that are delayed, and its caches are
// up to date; see [manager.WaitIdle]. An operator that has stopped is idle.
func (o *Operator) Idle(ctx context.Context) error {
	if o == nil || o.done == nil {
		return nil
	}
	_, err := manager.WaitIdle(ctx, o.Manager)
	return err
}

// Wait waits until the operator has stopped by itself, or because its context has ended.
func (o *Operator) Wait() error {
	if o == nil || o.done == nil {
		return nil
	}
	err := <-o.done
	o.cancel()
	o.done = nil
	return err
}

// Stop stops the operator and waits until it has stopped. It may be called again, and on nil.
func (o *Operator) Stop() error {
	if o == nil {
		return nil
	}
	o.cancel()
	return o.Wait()
}
