package lab

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"testing/synctest"
	"time"
)

// settle waits until all goroutines are blocked, and observes what the server has stored since.
func (w *world) settle() {
	w.quiet.Add(1)
	if w.program != nil {
		w.settleLive()
	} else {
		synctest.Wait()
	}
	w.mu.Lock()
	w.round++
	w.mu.Unlock()
	for w.observe() {
		synctest.Wait()
	}
}

// restAdvice returns advice if the actions are a second or more apart, on average: then the operator writes at intervals.
func (w *world) restAdvice(actions int) string {
	if w.now()/time.Duration(actions) < time.Second {
		return ""
	}
	return "; the operator writes at intervals: let it write only what changes, or leave these writes out in the test"
}

// run lets actions happen until the world is at rest and all steps of the scenario are done, or until there is a finding.
func (w *world) run(steps []Step) {
	for n := 0; ; n++ {
		w.settle()
		if w.finding != nil {
			return
		}
		if w.ctx.Err() != nil {
			w.find(labFailed, "the exploration has ended")
			return
		}
		endless := n > w.limits.actions || w.limits.time > 0 && w.now() > w.limits.time
		if endless {
			if w.find(hotLoop, "%d actions in %s, and the world does not come to rest: %s%s", n, age(w.now()), w.busiest(), w.restAdvice(n)); w.finding != nil {
				return
			}
			n = 0 // without the check, the next step begins
		}
		if w.restartCrashed() || w.restartEnded() || w.endReached() || w.endOld() {
			continue
		}
		if !endless && (w.performNext() || w.endFirst()) {
			continue
		}
		if rest := w.restEnds() - w.now(); rest > 0 && !endless {
			w.sleep(rest)
			continue
		}
		if w.actAtRest() {
			continue
		}
		if len(steps) == 0 && w.program != nil && w.hasOpenChoice() {
			w.sleep(max(w.lastChange+w.limits.view-w.now(), time.Millisecond))
			continue
		}
		if len(steps) == 0 {
			return
		}
		w.checkRest()
		w.do(steps[0])
		steps = steps[1:]
	}
}

// horizon is how long nothing must change until the world is at rest.
func (w *world) horizon() time.Duration { return cmp.Or(w.rest, w.limits.horizon) }

// hasOpenChoice reports whether a choice has begun and not ended.
func (w *world) hasOpenChoice() bool {
	return slices.ContainsFunc(w.states, func(s choiceState) bool { return s.begun && !s.ended })
}

// sleep lets time pass until an action arrives, a choice ends, or d has passed.
func (w *world) sleep(d time.Duration) {
	for i := range w.states {
		s := &w.states[i]
		switch {
		case !s.begun || s.ended || w.lastsToNextRest(i):
		case s.release.at > 0:
			d = min(d, max(s.release.at-w.now(), 1))
		case w.isLong(i) || w.program != nil:
			d = min(d, max(w.lastChange+w.limits.view-w.now(), 1))
		}
	}
	for _, p := range w.processes {
		if w.awaitsRestart(p) {
			d = min(d, max(p.ends.again-w.now(), 1))
		}
	}
	var stored <-chan struct{}
	if w.program != nil {
		stored = w.watcher.Ready()
	}
	select {
	case <-w.arrived:
	case <-stored:
	case <-w.ctx.Done():
	case <-time.After(d):
	}
}

// stepPrefix begins the text of a step in the trace.
const stepPrefix = "step: "

// do carries out a step of the scenario.
func (w *world) do(step Step) {
	w.actor = nil
	w.done++
	w.rest = step.Rest
	w.renew()
	w.trace = append(w.trace, event{at: w.now(), text: stepPrefix + step.Name})
	w.lastChange = w.now()
	result := make(chan error, 1)
	go func() { result <- step.Do(context.Background(), w.client) }()
	select {
	case err := <-result:
		if err != nil {
			w.find(stepFailed, "the step %q failed: %v", step.Name, advised(err))
		}
	case <-time.After(time.Minute):
		w.find(stepFailed, "the step %q has not returned after a minute. A step must not wait for the operator", step.Name)
	}
}

// performNext lets the first pending action happen that may, and with a read of a controller of the cluster all the others:
// reads do not depend on each other. It reports whether there was an action.
func (w *world) performNext() bool {
	first, reads := w.next()
	for _, a := range reads {
		w.perform(a)
	}
	if len(reads) == 0 && first != nil {
		w.perform(first)
	}
	return first != nil
}

// next returns the first pending action that may happen, or nil, and the reads of the cluster's controllers in order.
func (w *world) next() (first *action, reads []*action) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, a := range w.pending {
		if !w.mayHappen(a) {
			continue
		}
		if first == nil || compareActions(a, first) < 0 {
			first = a
		}
		if a.process.cluster && !a.isWrite() && w.choiceAt(a) < 0 {
			reads = append(reads, a)
		}
	}
	slices.SortFunc(reads, compareActions)
	return first, reads
}

// mayHappen reports whether neither a hold nor a frozen view keeps an action from happening.
func (w *world) mayHappen(a *action) bool {
	if a.until != nil && !w.isReleased(a.until) {
		return false
	}
	if a.process.cluster && w.slow != nil && !w.isReleased(w.slow) {
		return false
	}
	if a.process.paused != nil && !w.isReleased(a.process.paused) {
		return false
	}
	if frozen, ok := a.process.frozenAt(a.resource); ok && a.isEvent() && a.revision > frozen {
		return w.choiceAt(a) >= 0 // which thaws the view, or freezes it again
	}
	return true
}

func (w *world) isReleased(r *release) bool {
	return r.point != nil && w.happened[*r.point] || r.at > 0 && w.now() >= r.at
}

// choiceAt returns the index of the choice that takes effect at an action, or -1. A choice without an effect there never begins.
func (w *world) choiceAt(a *action) int {
	for i := range w.schedule {
		begins := !w.states[i].begun && a.is(w.schedule[i].At) && w.schedule[i].Do.fits(a.verb)
		if begins || w.goesOn(i, a) {
			return i
		}
	}
	return -1
}

// goesOn reports whether a choice that refuses requests for some time refuses an action too.
func (w *world) goesOn(i int, a *action) bool {
	c, s := &w.schedule[i], &w.states[i]
	return s.begun && !s.ended && c.Do.ofRequest() && a.process.name == s.process.name && a.name() == s.name
}

// perform lets an action happen, with the fault that the schedule has for it.
func (w *world) perform(a *action) {
	w.mu.Lock()
	i := w.choiceAt(a)
	w.mu.Unlock()
	if i >= 0 && !w.goesOn(i, a) && !w.begin(i, a) {
		return // the action stays pending, or its process has crashed
	}
	var v verdict
	if i >= 0 {
		v.fault = fault{choice: &w.schedule[i]}
	}
	w.actor = a
	w.trace = append(w.trace, event{at: w.now(), action: a, choice: v.fault.choice})
	w.mu.Lock()
	for _, p := range append(a.points, a.point()) {
		w.happened[p] = true
	}
	w.pending = slices.DeleteFunc(w.pending, func(other *action) bool { return other == a })
	w.mu.Unlock()
	if w.program != nil && a.isWrite() {
		a.finished = make(chan struct{})
	}
	a.chosen <- v
}

// note adds a fault to the trace.
func (w *world) note(c *Choice, format string, args ...any) {
	w.trace = append(w.trace, event{at: w.now(), choice: c, text: fmt.Sprintf(format, args...)})
}
