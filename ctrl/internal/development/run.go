package development

import (
	"context"
	"fmt"
	"strings"
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

// Reconciled observes the end of a reconcile. Done is whether it was successful and nothing is
// planned for the request.
func (m *Monitor) Reconciled(run Run, began time.Time, done bool) {
	controller, request := run.ControllerName(), run.RequestName()
	if request.Name == "" {
		return
	}
	m.later(func() {
		m.finalizers.reconciled(request, done)
		m.reconciledStatus(controller, request, began, done)
	})
}

// LostLease observes that this replica leads no more.
func (m *Monitor) LostLease() { m.leaseLost.Store(true) }

// HotLoop reports a hot loop, which a controller has detected.
func (m *Monitor) HotLoop(h config.HotLoop, request types.NamespacedName) {
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
