package lab

import (
	"fmt"
	"time"
)

// A replica of the operator that ends by itself, or does not start, is restarted as the kubelet restarts a container: at once after the
// first end, and then after a delay that begins with firstRestart and doubles. A run of more than stableRun begins anew. The delay never
// comes to the kubelet's limit, for after more than maxEnds the replica stays down.
//
//upstream:pkg/kubelet.newCrashLoopBackOff
//upstream:k8s.io/client-go/util/flowcontrol.Backoff
const (
	firstRestart = 10 * time.Second
	stableRun    = 10 * time.Minute
	maxEnds      = 5
)

// ends is how often a replica has ended by itself.
type ends struct {
	n     int
	since time.Duration // at which the process has started
	down  bool          // the process has ended
	again time.Duration // at which the next one starts
}

// backOff is the delay after the last end. A program has none: its time is real.
func (w *world) backOff(e *ends) time.Duration {
	if e.n < 2 || w.program != nil {
		return 0
	}
	return firstRestart << (e.n - 2)
}

// startAgain starts a replica, also one that has never run. The view of the process that it follows, if any, stays frozen.
func (w *world) startAgain(i int, after *process) {
	if err := w.startReplica(i, after); err != nil {
		p := w.processes[i]
		w.noteEnd(p, startFailed, fmt.Errorf("%s does not start again: %w", p.name, advised(err)))
	}
}

// noteEnd notes that a process has ended, or has not started. That is a finding without faults, and if it happens again and again.
func (w *world) noteEnd(p *process, check string, reason error) {
	e := &p.ends
	if w.now()-e.since > stableRun {
		e.n = 0
	}
	e.n++
	e.down, e.again = true, w.now()+w.backOff(e)
	w.trace = append(w.trace, event{at: w.now(), text: reason.Error()})
	w.crash(p)
	w.lastChange = w.now()
	if e.n > maxEnds || w.known == nil {
		w.find(check, "%v", reason)
	}
}

// restartEnded notes that a process has ended by itself, or starts the next one when its time has come. It reports whether there was one.
func (w *world) restartEnded() bool {
	for i, p := range w.processes {
		switch {
		case p == nil, w.isCrashed(p) && !w.awaitsRestart(p):
		case p.ends.down && w.now() < p.ends.again:
		case p.ends.down:
			w.trace = append(w.trace, event{at: w.now(), text: p.name + " starts again"})
			w.startAgain(i, p)
			w.lastChange = w.now()
			return true
		default:
			select {
			case err := <-p.done:
				p.done <- err // for the end of the run
				w.noteEnd(p, operatorFailed, fmt.Errorf("%s ends by itself: %v", p.name, advised(err)))
				return true
			default:
			}
		}
	}
	return false
}

// awaitsRestart reports whether a process has ended by itself, and another one will start.
func (w *world) awaitsRestart(p *process) bool {
	return p != nil && p.ends.down && p.ends.n <= maxEnds
}

// restEnds is the time at which the world is at rest: nothing has changed for long enough, and no replica waits for its restart.
func (w *world) restEnds() time.Duration {
	end := w.lastChange + w.patience()
	for _, p := range w.processes {
		if w.awaitsRestart(p) {
			end = max(end, p.ends.again)
		}
	}
	return end
}
