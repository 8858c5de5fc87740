package development

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"flyball.dev/ctrl/config"
)

// Run is a reconcile in progress.
type Run interface {
	// ControllerName is the name of the controller.
	ControllerName() string
	// RequestName is the request, or zero if it is not a reconcile.Request.
	RequestName() types.NamespacedName
	// LeaderOnly reports whether the controller runs only in the leader.
	LeaderOnly() bool
}

// RunKey is the context key of the Run.
type RunKey struct{}

// runOf returns the reconcile that ctx belongs to, or nil.
func runOf(ctx context.Context) Run {
	run, _ := ctx.Value(RunKey{}).(Run)
	return run
}

// running counts the reconciles in progress by request. It is safe for concurrent use.
type running struct {
	mu       sync.Mutex
	requests map[types.NamespacedName]int
}

func (r *running) add(request types.NamespacedName, n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.requests[request] += n; r.requests[request] == 0 {
		delete(r.requests, request)
	}
}

func (r *running) has(request types.NamespacedName) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.requests[request] > 0
}

// Begin observes the begin of a reconcile, which [Monitor.Reconciled] ends.
func (m *Monitor) Begin(run Run) {
	if request := run.RequestName(); request.Name != "" {
		m.running.add(request, 1)
	}
}

// Reconciled observes the end of a reconcile. Done is whether it was successful and nothing is
// planned for the request.
func (m *Monitor) Reconciled(run Run, began time.Time, done bool) {
	controller, request := run.ControllerName(), run.RequestName()
	if request.Name == "" {
		return
	}
	m.running.add(request, -1)
	m.later(func() {
		m.finalizers.reconciled(request, done)
		m.reconciledStatus(controller, request, began, done)
	})
}

// Wait observes that there is an election, which this replica has not won: others may do the work.
func (m *Monitor) Wait() { m.standby.Store(true) }

// Lead observes that this replica has been elected.
func (m *Monitor) Lead() {
	m.leads.Store(time.Now().UnixNano())
	m.standby.Store(false)
}

// LostLease observes that this replica leads no more. The lease is not over yet, so until then no
// other replica leads.
func (m *Monitor) LostLease(left time.Duration) {
	m.leaseOver.Store(time.Now().Add(left).UnixNano())
	m.standby.Store(true)
}

// isLeaseOver reports whether this replica has led, and another one may lead now.
func (m *Monitor) isLeaseOver() bool {
	over := m.leaseOver.Load()
	return over != 0 && time.Now().UnixNano() > over
}

// HotLoop reports a hot loop, which a controller has detected.
func (m *Monitor) HotLoop(h config.HotLoop, request types.NamespacedName) {
	m.contained.do(func() { m.warnHotLoop(h, request) })
}

func (m *Monitor) warnHotLoop(h config.HotLoop, request types.NamespacedName) {
	w := config.Warning{
		Check:  config.CheckHotLoops,
		Object: request,
		Writer: fmt.Sprintf("controller %q", h.Controller),
		Message: fmt.Sprintf("Hot loop: the controller reconciled the request %d times in %v because of its own writes. "+
			"Write a field only if its value differs, and never a time, a counter or a list in random order", h.Reconciles, h.Within),
	}
	for _, c := range h.Causes.List {
		if fields, managers, _ := strings.Cut(c.Changed, " by "); fields != "" {
			w.GVK, w.Object, w.Field = c.GVK, c.Object, fields
			if managers != "" {
				w.Writer += fmt.Sprintf(" (field manager %s)", managers)
			}
		}
	}
	m.warn(w)
}
