package controller

import (
	"context"
	"sync"

	"github.com/go-logr/logr"
	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/types"

	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/internal/cause"
	"flyball.dev/ctrl/internal/development"
	"flyball.dev/ctrl/internal/observe"
	"flyball.dev/ctrl/internal/overlay"
	"flyball.dev/ctrl/reconcile"
)

// reconcileContext is the context of one reconcile, and the state of it. Its logger and ID are
// created lazily: most reconciles never log, and never need their ID.
type reconcileContext[request comparable] struct {
	context.Context // the controller's
	controller      *controller[request]
	req             request
	causes          reconcile.Causes
	run             *observe.Run // nil if the manager has no console
	turn            *turn        // nil if the workers do not take turns

	mu     sync.Mutex // guards what follows: reconcilers may have goroutines
	id     types.UID
	logger any // a logr.Logger, or nil
	writes []write
}

// loggerKey is the context key of package logr. It is not exported, so it is found by a lookup.
var loggerKey = func() any {
	var probe keyProbe
	_, _ = logr.FromContext(&probe)
	return probe.key
}()

// keyProbe records the key that Value is called with.
type keyProbe struct {
	context.Context
	key any
}

func (p *keyProbe) Value(key any) any { p.key = key; return nil }

// reconcileIDKey is the context key of the ID of a reconcile.
type reconcileIDKey struct{}

// ReconcileIDFromContext returns the ID of the reconcile that ctx belongs to, which is logged as
// reconcileID. It is empty for any other context.
var ReconcileIDFromContext = func(ctx context.Context) types.UID {
	id, _ := ctx.Value(reconcileIDKey{}).(types.UID)
	return id
}

// Value implements context.Context.
func (c *reconcileContext[request]) Value(key any) any {
	switch key.(type) {
	case reconcileIDKey:
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.reconcileID()
	case cause.Key:
		return c.causes
	case overlay.ObserverKey:
		if c.controller.detectsHotLoops() {
			return c
		}
	case observe.RunKey:
		return c.run
	case turnKey:
		return c.turn
	case development.RunKey:
		if c.controller.development != nil {
			return c
		}
	}
	if key == loggerKey {
		return c.loggerValue()
	}
	return c.Context.Value(key)
}

// reconcileID returns the ID of the reconcile. The caller holds mu.
func (c *reconcileContext[request]) reconcileID() types.UID {
	if c.id == "" {
		c.id = types.UID(uuid.NewString())
	}
	return c.id
}

// loggerValue is the logger as a context value.
func (c *reconcileContext[request]) loggerValue() any {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.logger == nil {
		logger := c.controller.options.LogConstructor(&c.req).WithValues("reconcileID", c.reconcileID())
		if c.run != nil {
			logger = c.controller.record.Logger(c.run, logger)
		}
		c.logger = logger
	}
	return c.logger
}

// log is the logger of the reconcile.
func (c *reconcileContext[request]) log() logr.Logger { return c.loggerValue().(logr.Logger) }

// ControllerName implements development.Run.
func (c *reconcileContext[request]) ControllerName() string { return c.controller.name }

// LeaderOnly implements development.Run.
func (c *reconcileContext[request]) LeaderOnly() bool { return c.controller.NeedLeaderElection() }

// RequestName implements development.Run.
func (c *reconcileContext[request]) RequestName() types.NamespacedName {
	if req, ok := any(c.req).(reconcile.Request); ok {
		return req.NamespacedName
	}
	return types.NamespacedName{}
}

// maxWrites bounds the writes that are recorded of one reconcile.
const maxWrites = 32

// write is the record of one write.
type write struct {
	object  types.NamespacedName
	version string
}

// ObserveWrite implements overlay.Observer.
func (c *reconcileContext[request]) ObserveWrite(obj client.Object) {
	w := write{client.ObjectKeyFromObject(obj), obj.GetResourceVersion()}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.writes) < maxWrites {
		c.writes = append(c.writes, w)
	}
}
