package controller

import (
	"bytes"
	"runtime"
	"sync"
	"time"
)

// watchdog reports the reconciles of one worker that run for longer than a limit. Its timer is not
// reset when reconciles begin and end, but checks when it fires which one is running, so that the
// cost for a quick reconcile is negligible.
type watchdog[request comparable] struct {
	limit  time.Duration
	report func(c *reconcileContext[request], took time.Duration, stack string)
	worker []byte // header of the worker's goroutine in a stack trace

	pending sync.WaitGroup // the timer is armed or check runs

	mu        sync.Mutex // guards what follows
	timer     *time.Timer
	armed     bool
	running   *reconcileContext[request] // nil if there is none or it has been reported
	startedAt time.Time
}

// newWatchdog must be called by the worker itself. A limit of zero or less disables the watchdog.
func newWatchdog[request comparable](
	limit time.Duration, report func(*reconcileContext[request], time.Duration, string),
) *watchdog[request] {
	var head [64]byte
	n := runtime.Stack(head[:], false)
	worker, _, _ := bytes.Cut(head[:n], []byte("["))
	return &watchdog[request]{limit: limit, report: report, worker: worker}
}

func (w *watchdog[request]) begin(c *reconcileContext[request], now time.Time) {
	if w.limit <= 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.running, w.startedAt = c, now
	if !w.armed {
		w.armed = true
		w.arm(w.limit)
	}
}

func (w *watchdog[request]) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.running = nil
}

// stop stops the watchdog and waits for a report in progress.
func (w *watchdog[request]) stop() {
	w.mu.Lock()
	if w.timer != nil && w.timer.Stop() {
		w.pending.Done()
	}
	w.mu.Unlock()
	w.pending.Wait()
}

func (w *watchdog[request]) arm(d time.Duration) {
	w.pending.Add(1)
	if w.timer == nil {
		w.timer = time.AfterFunc(d, w.check)
	} else {
		w.timer.Reset(d)
	}
}

// check runs when the timer fires. It reports the running reconcile or arms the timer again.
func (w *watchdog[request]) check() {
	defer w.pending.Done()
	w.mu.Lock()
	c := w.running
	took := time.Since(w.startedAt)
	switch {
	case c == nil:
		w.armed = false
		w.mu.Unlock()
		return
	case took < w.limit:
		w.arm(w.limit - took)
		w.mu.Unlock()
		return
	}
	w.running, w.armed = nil, false
	w.mu.Unlock()
	w.report(c, took, stackOf(w.worker))
}

// maxStacks bounds the buffer for the stacks of all goroutines.
const maxStacks = 16 << 20

// stackOf returns the stack of the goroutine with a trace that begins with head.
func stackOf(head []byte) string {
	for size := 1 << 16; ; size *= 4 {
		all := make([]byte, size)
		n := runtime.Stack(all, true)
		for stack := range bytes.SplitSeq(all[:n], []byte("\n\n")) {
			if bytes.HasPrefix(stack, head) && (n < size || size >= maxStacks) {
				return string(stack)
			}
		}
		if n < size || size >= maxStacks {
			return ""
		}
	}
}
