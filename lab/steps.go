package lab

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// A StepRef identifies a step of a scenario.
type StepRef struct {
	// N is the number of the step in the scenario, from 1.
	N    int    `json:"n"`
	Name string `json:"name"`
}

// refs returns references to the steps that a run has.
func (e *explorer) refs() []StepRef {
	if e.steps != nil {
		return e.steps
	}
	all := make([]StepRef, len(e.scenario.Steps))
	for i, s := range e.scenario.Steps {
		all[i] = StepRef{N: i + 1, Name: s.Name}
	}
	return all
}

// withSteps calls do while the scenario has only some of its steps. If some are missing, the clean runs show first what the operator should
// reach then. If one of them has a finding, or the scenario has other steps, withSteps returns an error and does not call do.
func (e *explorer) withSteps(some []StepRef, do func()) error {
	if slices.Equal(some, e.refs()) {
		do()
		return nil
	}
	var steps []Step
	for _, s := range some {
		if s.N < 1 || s.N > len(e.scenario.Steps) || e.scenario.Steps[s.N-1].Name != s.Name {
			return fmt.Errorf("the scenario has no step %d %q any more: delete the file and explore again", s.N, s.Name)
		}
		steps = append(steps, e.scenario.Steps[s.N-1])
	}
	all, known, fresh, limits := e.scenario.Steps, e.known, e.fresh, e.limits
	defer func() { e.scenario.Steps, e.known, e.fresh, e.limits, e.steps = all, known, fresh, limits, nil }()
	e.scenario.Steps, e.fresh, e.steps = steps, map[string][]outcome{}, some
	f, err := e.learn()
	if f != nil {
		err = errors.New("with these steps of the scenario, the clean run has a finding: " + f.Check + ": " + f.Message)
	}
	if err == nil {
		do()
	}
	return err
}

// shrinkSteps leaves out the steps of the scenario that the finding does not need, as many at once as possible.
func (e *explorer) shrinkSteps(f *Finding) *Finding {
	for n := len(f.Steps) - 1; n > 0; n-- {
		for first := len(f.Steps) - n; first >= 0; first-- {
			if smaller := e.failsWithout(f, first, first+n); smaller != nil {
				return e.shrinkSteps(smaller)
			}
		}
	}
	return f
}

// failsWithout runs the schedule of a finding without the steps from first to end. It returns the finding if the check fails again, in two
// equal runs.
func (e *explorer) failsWithout(f *Finding, first, end int) (smaller *Finding) {
	schedule := f.Schedule.without(first, end, f.trace)
	_ = e.withSteps(slices.Delete(slices.Clone(f.Steps), first, end), func() { // an error means that the steps are needed
		if smaller = e.fails(schedule, f.Check); smaller == nil {
			return
		}
		if smaller = e.shrink(smaller); !e.confirm(smaller) {
			smaller = nil
		}
	})
	return smaller
}

// without returns the schedule for a run without the steps from first to end, which had the trace. Its points have the numbers that they
// have in that run.
func (s Schedule) without(first, end int, trace []event) Schedule {
	left := slices.Clone(s)
	for i := range left {
		c := &left[i]
		c.At = c.At.without(first, end, trace)
		if c.Until != nil {
			until := c.Until.without(first, end, trace)
			c.Until = &until
		}
	}
	return left
}

func (p Point) without(first, end int, trace []event) Point {
	switch {
	case p.Action == atRest:
		p.N -= min(max(p.N-first, 0), end-first)
		return p
	case p.When != "" || p.isPattern():
		return p // whether the condition holds then, only a run can tell
	}
	step, before := 0, 0
	for _, ev := range trace {
		switch {
		case ev.action == nil && strings.HasPrefix(ev.text, stepPrefix):
			step++
		case ev.action != nil && first < step && step <= end && ev.action.name() == p.Action && ev.action.occurrence < p.N:
			before++
		}
	}
	p.N -= before
	return p
}
