package lab

import (
	"context"
	"errors"
	"slices"
	"time"

	"flyball.dev/ctrl/client"
)

// begin lets a choice take effect at an action. It reports whether the action happens now.
func (w *world) begin(i int, a *action) bool {
	c, s := &w.schedule[i], &w.states[i]
	s.begun, s.process, s.resource, s.name, s.since, s.first = true, a.process, a.resource, a.name(), w.now(), len(w.trace)
	s.release = w.releaseOf(c)
	a.process.old = a.process.old || c.Do.makesOld()
	switch c.Do {
	case CrashBefore:
		w.note(c, "%s crashes before: %s", a.process.name, a.name())
		w.crash(a.process)
		return false
	case CrashAfter, Conflict, TooMany, ServerError, Refuse, Timeout, LateTimeout, Lost, Close, Expire, Fail, FailLate:
		s.ended = c.Do != CrashAfter && (c.For == 0 || !c.Do.ofRequest())
		return true
	case Miss, Bookmarks:
		return true
	case Hold:
		s.held = a
		w.mu.Lock()
		a.until = &s.release
		w.mu.Unlock()
		w.note(c, "held: %s", a.name())
		return false
	case Freeze, FreezeKind, TimeTravel, TimeTravelKind:
		s.revision = a.revision
		if !c.Seen {
			s.revision--
		}
		if c.Do == Freeze || c.Do == TimeTravel {
			s.resource = ""
		}
		if c.Do == TimeTravel || c.Do == TimeTravelKind {
			w.note(c, "a second view of %s stands still at: %s", a.process.name, a.name())
			return true
		}
		w.freeze(a.process, s.resource, s.revision)
		w.note(c, "the view of %s stands still at: %s", a.process.name, a.name())
		return c.Seen
	case Pause:
		w.mu.Lock()
		a.process.paused = &s.release
		w.mu.Unlock()
		w.note(c, "%s stands still", a.process.name)
		return false
	case Slow:
		w.mu.Lock()
		w.slow = &s.release
		w.mu.Unlock()
		w.note(c, "the cluster's controllers stand still")
		return false
	case Jump:
		w.note(c, "the clock jumps by %v", c.For)
		s.ended = true
		time.Sleep(c.For)
		w.lastChange, w.disturbed = w.now(), len(w.trace)
		return false
	default:
		s.ended = c.Do != Recreate
		w.disturb(i, c.Do)
		return false
	}
}

// releaseOf returns the condition that ends a choice.
func (w *world) releaseOf(c *Choice) release {
	r := release{point: c.Until}
	if c.For > 0 {
		r.at = w.now() + c.For
	}
	return r
}

func (w *world) freeze(p *process, resource string, revision uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p.frozen[resource] = revision
}

// renew notes at a rest that the processes have new views, unless a fault lasts that makes them old.
func (w *world) renew() {
	for _, p := range w.processes {
		p.old = p.old && w.staysOld(p)
	}
}

// staysOld reports whether a fault lasts that makes the view of a process old.
func (w *world) staysOld(p *process) bool {
	for i := range w.states {
		if s := &w.states[i]; s.begun && !s.ended && s.process == p && w.schedule[i].Do.makesOld() {
			return true
		}
	}
	return len(p.frozen) > 0
}

func (w *world) thaw(name, resource string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.processes {
		if p.name == name {
			delete(p.frozen, resource)
		}
	}
}

// endReached ends the first choice that has reached its end. It reports whether there was one. In real time, a process may crash
// shortly after the write that ends the choice, so a crash ends only when the process is down.
func (w *world) endReached() bool {
	for i := range w.states {
		s := &w.states[i]
		if !s.begun || s.ended || w.lastsToNextRest(i) || !w.reached(s) || w.schedule[i].Do.isCrash() && !w.isCrashed(s.process) {
			continue
		}
		return w.end(i)
	}
	return false
}

// endFirst ends the first choice that may end early, because nothing else can happen. It reports whether there was one.
func (w *world) endFirst() bool {
	for i := range w.states {
		if w.mayEndEarly(i) {
			return w.end(i)
		}
	}
	return false
}

// mayEndEarly reports whether a choice that has begun may end although its Until has not happened: it has no For.
func (w *world) mayEndEarly(i int) bool {
	s := &w.states[i]
	if !s.begun || s.ended || s.release.at != 0 || w.lastsToNextRest(i) || w.waitsForPoint(i) {
		return false
	}
	return !w.isLong(i) && w.program == nil || w.now()-w.lastChange >= w.limits.view
}

// manyActions is the number of actions after which a fault without Until and For ends. On a stale view, a right operator may create an
// object again and again that the garbage collector deletes.
const manyActions = 400

// endOld ends a fault that goes on for long, although something still changes. It reports whether there was one.
func (w *world) endOld() bool {
	if w.program != nil {
		return false
	}
	for i := range w.states {
		s := &w.states[i]
		if !s.begun || s.ended || s.release != (release{}) || w.lastsToNextRest(i) {
			continue
		}
		if len(w.trace)-s.first > manyActions || w.isLong(i) && w.now()-s.since > 4*w.limits.view {
			return w.end(i)
		}
	}
	return false
}

// waitsForPoint reports whether a process starts again later, at a point that may be in a later step.
func (w *world) waitsForPoint(i int) bool {
	c := &w.schedule[i]
	return w.program == nil && (c.Do == TimeTravel || c.Do == TimeTravelKind) && w.states[i].release.point != nil
}

// isLong reports whether a choice ends when nothing has changed for a while, and not before time passes.
func (w *world) isLong(i int) bool {
	switch w.schedule[i].Do {
	case Freeze, FreezeKind, Bookmarks, Recreate:
		return true
	case TimeTravel, TimeTravelKind:
		return w.states[i].release.point == nil
	}
	return false
}

func (w *world) reached(s *choiceState) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.isReleased(&s.release)
}

// end ends a choice, or begins its second part.
func (w *world) end(i int) bool {
	c, s := &w.schedule[i], &w.states[i]
	s.ended = true
	switch c.Do {
	case CrashBefore, CrashAfter:
		w.crash(s.process) // in real time, the response to its write may be late
		w.restart(c, s.process)
	case Hold:
		w.mu.Lock()
		s.held.until = nil
		w.mu.Unlock()
	case Freeze, FreezeKind:
		w.note(c, "the view of %s goes on", s.process.name)
		w.thaw(s.process.name, s.resource)
	case Pause:
		w.mu.Lock()
		s.process.paused = nil
		w.mu.Unlock()
		w.note(c, "%s goes on", s.process.name)
	case TimeTravel, TimeTravelKind:
		if s.release.point != nil {
			// The second part: the process starts again, on the frozen view.
			happened := w.reached(s)
			s.release, s.ended, s.since, s.first = release{}, false, w.now(), len(w.trace)
			if !happened {
				s.missed = true
				return true
			}
			p := w.current(s.process)
			w.freeze(p, s.resource, s.revision)
			w.crash(p)
			w.restart(c, p)
			return true
		}
		w.note(c, "the view of %s goes on", s.process.name)
		w.thaw(s.process.name, s.resource)
	case Slow:
		w.mu.Lock()
		w.slow = nil
		w.mu.Unlock()
		w.note(c, "the cluster's controllers go on")
	case Recreate:
		w.removeForeign(c)
	case Miss, Bookmarks:
		if s.stream != nil {
			s.stream.expire()
			s.stream.close()
		}
	}
	return true
}

// restart starts a process again after a crash, unless another choice has started the next process already.
func (w *world) restart(c *Choice, after *process) {
	if i := slices.Index(w.processes, after); i >= 0 {
		w.note(c, "%s starts again", after.name)
		w.startAgain(i, after)
	}
}

// current returns the process that now runs in the replica of p.
func (w *world) current(p *process) *process {
	return w.processes[slices.IndexFunc(w.processes, func(other *process) bool { return other.name == p.name })]
}

// restartCrashed restarts the processes that crash without staying down. Others lose the object of their choice first, and
// start when the cluster has nothing to do any more.
func (w *world) restartCrashed() bool {
	for i := range w.states {
		c, s := &w.schedule[i], &w.states[i]
		if !s.begun || s.ended || w.lastsToNextRest(i) || !c.Do.isCrash() || !w.isCrashed(s.process) {
			continue
		}
		if c.Object != "" && !s.disturbed {
			s.disturbed = true
			w.disturb(i, Delete)
			w.lastChange = w.now()
			return true
		}
		if c.Object == "" && c.Until == nil && c.For == 0 {
			return w.end(i)
		}
	}
	return false
}

// disturb changes the object of a choice as a user does.
func (w *world) disturb(i int, do Fault) {
	c := &w.schedule[i]
	w.note(c, "somebody else: %s %s", do, c.Object)
	w.actor = nil
	if do != Depose {
		w.disturbed = len(w.trace)
	}
	if err := w.disturbObject(do, c.Object); errors.Is(err, errNothing) {
		w.states[i].missed = true
	} else if err != nil {
		w.find(labFailed, "%s %s: %v", do, c.Object, err)
	}
}

// removeForeign removes the object that took the name of one of the operator's, so that the operator can create its own.
func (w *world) removeForeign(c *Choice) {
	w.actor = nil
	o, err := w.object(c.Object)
	if err != nil || o == nil || !w.foreign[string(o.GetUID())] {
		return
	}
	w.note(c, "somebody else: deletes it again: %s", c.Object)
	w.disturbed, w.removedForeign = len(w.trace), true
	if err := w.client.Delete(context.Background(), o); client.IgnoreNotFound(err) != nil {
		w.find(labFailed, "%v", err)
	}
}

// tookPlace reports whether all faults of the schedule have taken place.
func (w *world) tookPlace() bool {
	for i := range w.states {
		if s := &w.states[i]; !s.begun || s.missed || !s.ended && w.waitsForPoint(i) {
			return false
		}
	}
	return true
}
