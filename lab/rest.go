package lab

import (
	"fmt"
	"slices"

	"flyball.dev/internal/canonical"
)

// atRest is the action of the points at which the world is at rest: {"action": "rest", "n": 2} is the rest after the second
// step, and the one before the first step has no number.
const atRest = "rest"

// happensAtRest reports whether a fault can be chosen for a rest.
func (f Fault) happensAtRest() bool {
	switch f {
	case Change, Delete, Recreate, Edit, CrashBefore:
		return true
	}
	return false
}

// lastsToNextRest reports whether a choice that has begun at a rest ends at the next one.
func (w *world) lastsToNextRest(i int) bool {
	c := &w.schedule[i]
	return c.At.Action == atRest && (c.Do == Change || c.Do == CrashBefore)
}

// actAtRest begins or ends the choices of the schedule that are due when the world is at rest. It reports whether there was
// one.
func (w *world) actAtRest() bool {
	if w.processes == nil {
		return false // the operator has not started yet
	}
	for i := range w.schedule {
		c, s := &w.schedule[i], &w.states[i]
		if c.At.Action != atRest || c.At.N != w.done || s.ended || s.begun && !w.lastsToNextRest(i) {
			continue
		}
		begin := !s.begun
		s.begun, s.ended = true, !begin
		if begin {
			s.since, s.first, s.release = w.now(), len(w.trace), w.releaseOf(c)
		}
		switch {
		case c.Do == Change:
			w.changeAtRest(c, s, begin)
		case c.Do == CrashBefore && begin:
			w.note(c, "the operator starts again, and has nothing to do")
			w.restartAll()
		case c.Do == CrashBefore:
			if len(w.schedule) == 1 {
				w.checkUnchanged(s.first)
			}
			continue
		default:
			s.ended = c.Do != Recreate
			w.disturb(i, c.Do)
		}
		w.lastChange = w.now()
		return true
	}
	return false
}

// restartAll restarts all replicas of the operator.
func (w *world) restartAll() {
	w.rest = 0
	for i, p := range slices.Clone(w.processes) {
		w.crash(p)
		w.startAgain(i, nil)
	}
}

// checkUnchanged finds that the operator has written something since it was restarted at rest.
func (w *world) checkUnchanged(since int) {
	for _, e := range w.trace[since:] {
		if e.action == nil || e.action.process.cluster {
			continue
		}
		for _, c := range e.changes {
			w.find(idempotence, "at rest, and after a restart, the operator still writes: %s%s", e.action.name(), changedFields(&c))
		}
	}
}

// checkRest compares the state at a rest before another step with the state of the clean runs there. In the clean runs it
// only remembers the state.
func (w *world) checkRest() {
	if w.finding != nil || w.processes == nil {
		return
	}
	s, err := w.state()
	if err != nil {
		w.find(labFailed, "%v", err)
		return
	}
	if w.known == nil {
		w.rests = append(w.rests, w.outcomeOf(s))
		return
	}
	if w.done >= len(w.known.rests) || w.isDisturbing() || w.program != nil && w.disturbed == 0 {
		return // in real time, a rest is no more than a while without a change
	}
	differences := canonical.Compare(w.outcomeOf(s), w.known.rests[w.done], w.known.restNoise)
	if w.disturbed > 0 {
		differences = w.withoutTraces(differences, newCanonical(s, w.names))
	}
	if len(differences) > 0 {
		w.find(convergence, "%s: %s", restName(w.done), list(differences))
	}
}

// restName says which rest a number means.
func restName(n int) string {
	if n == 0 {
		return "at rest before the first step"
	}
	return fmt.Sprintf("at rest after step %d", n)
}

// isDisturbing reports whether a fault has begun, and has not ended.
func (w *world) isDisturbing() bool {
	for i := range w.states {
		if s := &w.states[i]; s.begun && !s.ended && !w.waitsForPoint(i) {
			return true
		}
	}
	return false
}
