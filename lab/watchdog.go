package lab

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"
)

// stuckAfter is the real time after which a run without progress is stuck.
var stuckAfter = time.Minute

// watch watches a run from outside of its bubble until the function that it returns is called. While a goroutine of the run
// neither ends nor waits for another one of the bubble, the bubble is never quiet, virtual time stands still, and nothing can end its
// goroutines. So watch ends the program, with a panic that names them.
func (e *explorer) watch() (stop func()) {
	done := make(chan struct{})
	go func() {
		last := e.quiet.Load()
		ticker := time.NewTicker(stuckAfter)
		defer ticker.Stop()
		for {
			select {
			case <-done:
				return
			case <-ticker.C:
			}
			now := e.quiet.Load()
			if now == last {
				bubble, _ := e.bubble.Load().(string)
				panic(stuckPrefix + stuckBecause(goroutinesOf(bubble)))
			}
			last = now
		}
	}()
	return func() { close(done) }
}

// stuckPrefix begins the panic of a run that is stuck.
const stuckPrefix = "lab: the run is stuck: "

// stuckBecause says why a bubble is never quiet: a goroutine spins, or waits for something outside of the bubble, or for a mutex. What one
// of the first two keeps locked is no reason of its own.
func stuckBecause(all []*goroutine) string {
	var running, locking, outside, awake []*goroutine
	for _, g := range all {
		switch {
		case g.blocked():
			continue
		case g.runs():
			running = append(running, g)
		case g.locks():
			locking = append(locking, g)
		default:
			outside = append(outside, g)
		}
		awake = append(awake, g)
	}
	switch {
	case len(running) > 0:
		return fmt.Sprintf("the operator spins, and time stands still: %s.\nA loop must wait for an event, a request or a timer.\n"+
			"These goroutines do not wait:\n\n%s", describeAll(running), stacksOf(awake))
	case len(outside) == 0 && len(locking) > 0:
		return stuckAtMutex(locking, all)
	case len(outside) == 0:
		return fmt.Sprintf("it makes no progress, and its goroutines wait for each other: %s.\n\n%s", describeAll(all), stacksOf(all))
	}
	return fmt.Sprintf("the operator waits for something outside of its bubble, such as a socket, a file, a process or a channel of another test, "+
		"and time stands still: %s.\nAll requests to the cluster must go through the configuration that Start gets, and other calls through "+
		"lab.Call or lab.Transport.\nThese goroutines wait:\n\n%s", describeAll(outside), stacksOf(awake))
}

// stuckAtMutex says who waits for a mutex, and who may hold it.
func stuckAtMutex(waiters, all []*goroutine) string {
	var holders []*goroutine
	for _, waiter := range waiters {
		for _, g := range likelyHolders(waiter, all) {
			if !slices.Contains(holders, g) {
				holders = append(holders, g)
			}
		}
	}
	holder := "No other goroutine of the same package waits: the goroutines wait for each other, or one has not unlocked what it has locked"
	if len(holders) > 0 {
		holder = "The holder is likely " + describeAll(holders)
	}
	return fmt.Sprintf("the operator waits for a mutex, and time stands still: %s.\n%s.\nIn virtual time, nobody may wait for a mutex while its "+
		"holder waits for a request, a timer or another goroutine: unlock the mutex before that, or use a channel with room for one value instead.\n"+
		"These goroutines wait for a mutex, and then the likely holders:\n\n%s", describeAll(waiters), holder, stacksOf(slices.Concat(waiters, holders)))
}

// panicked records a panic that was recovered, as the ones of reconcilers are.
func (w *world) panicked(_ context.Context, reason any) {
	callers := make([]uintptr, 64)
	frames := runtime.CallersFrames(callers[:runtime.Callers(1, callers)])
	place, inPanic := "", false
	for {
		frame, more := frames.Next()
		switch {
		case frame.Function == "runtime.gopanic":
			inPanic = true
		case inPanic && !strings.HasPrefix(frame.Function, "runtime."):
			place = fmt.Sprintf(" in %s, line %d", frame.Function, frame.Line)
		}
		if place != "" || !more {
			break
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.find(panicked, "panic: %v%s", reason, place)
}
