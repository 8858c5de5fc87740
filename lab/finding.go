package lab

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"
)

// A Finding is something wrong in a run.
type Finding struct {
	// Check is the check that failed, such as "convergence".
	Check string
	// Message describes the mistake.
	Message string
	// Schedule is the schedule of the run.
	Schedule Schedule
	// Steps are the steps of the scenario that the run had. The finding does not need the others. A finding of [ExploreProgram] has none.
	Steps []StepRef
	// Story tells the run.
	Story string
	// Divergence, if not empty, says how a second run of the schedule differed: the operator depends on chance, or the run was in real
	// time. The finding is not shrunk.
	Divergence string

	unreduced string        // the message before the finding was shrunk
	trace     []event       // of the run
	lines     []line        // of the story
	writes    []string      // in canonical form
	at        time.Duration // in the run
	left      []*goroutine  // when the run was over
	page      string        // the file with the finding as a page, if a child process has written one
}

// The checks of every run.
const (
	convergence    = "convergence"
	idempotence    = "second pass"
	hotLoop        = "hot loop"
	statusTruth    = "observed generation"
	orphan         = "orphan"
	dataLoss       = "needless deletion"
	stuckDeletion  = "finalizer"
	foreignObject  = "foreign object"
	leadership     = "leadership"
	leak           = "goroutine"
	panicked       = "panic"
	invariant      = "invariant"
	stepFailed     = "step"
	startFailed    = "start"
	operatorFailed = "operator"
	labFailed      = "lab"
	stuckRun       = "stuck"
)

// checks are the names of the checks that a scenario may leave out.
var checks = []string{convergence, idempotence, hotLoop, statusTruth, orphan, dataLoss, stuckDeletion, foreignObject, leadership, leak, panicked,
	invariant, replayed, stepFailed, startFailed, operatorFailed}

// find records a finding. The first one counts.
func (w *world) find(check, format string, args ...any) {
	if w.finding == nil && !slices.Contains(w.scenario.Without, check) {
		w.finding = &Finding{Check: check, Message: fmt.Sprintf(format, args...), Schedule: w.schedule, at: w.now()}
	}
}

// busiest names the actions that happened most often.
func (w *world) busiest() string {
	all := slices.SortedFunc(maps.Keys(w.counts), func(a, b string) int {
		return cmp.Or(w.counts[b]-w.counts[a], cmp.Compare(a, b))
	})
	text := ""
	for i, name := range all[:min(3, len(all))] {
		if i > 0 {
			text += ", "
		}
		text += fmt.Sprintf("%s (%d times)", name, w.counts[name])
	}
	return text
}
