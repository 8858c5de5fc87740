package lab

import (
	"fmt"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

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

// withoutTraces leaves out the differences that what somebody else has done explains, such as a number of restarts. Two remain. An
// operator that does nothing about an object that is gone has not noticed, unless the object had finished. And an object that
// the operator has created again must be as the operator kept it before.
func (w *world) withoutTraces(all []difference, c *canonical.Form) []difference {
	all = slices.DeleteFunc(all, func(d difference) bool {
		if d.Path == "" {
			return d.Got != canonical.Count(0) || w.isExcused(d.Object, w.known.rests[w.done], w.known.restNoise) || w.hasReacted()
		}
		return !w.deleted[d.Object] || strings.HasPrefix(d.Path, "status.")
	})
	if len(all) == 0 {
		return nil
	}
	return w.withoutHistory(all, c, w.known.restNoise)
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

// hasReacted reports whether the operator has changed anything since somebody else has, or called an external system.
func (w *world) hasReacted() bool {
	return slices.ContainsFunc(w.trace[w.disturbed:], func(e event) bool {
		return e.action != nil && !e.action.process.cluster && (len(e.changes) > 0 || e.action.verb == call)
	})
}

// hasFinished reports whether an object is a Job or a Pod that has ended, so that nobody needs to create it again.
func hasFinished(o *unstructured.Unstructured) bool {
	switch kindOf(o) {
	case "Pod":
		phase, _, _ := unstructured.NestedString(o.Object, "status", "phase")
		return phase == string(corev1.PodSucceeded) || phase == string(corev1.PodFailed)
	case "Job.batch":
		conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
		return slices.ContainsFunc(conditions, func(c any) bool {
			condition, _ := c.(map[string]any)
			ended := condition["type"] == string(batchv1.JobComplete) || condition["type"] == string(batchv1.JobFailed)
			return ended && condition["status"] == string(corev1.ConditionTrue)
		})
	}
	return false
}
