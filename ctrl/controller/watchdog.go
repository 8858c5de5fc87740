package controller

import (
	"bytes"
	"runtime"
	"sync"
	"time"
)

// watchdog reports the reconciles of one worker that run for too long. Its timer is left alone when
// reconciles begin and end, and finds out what has changed when it fires: that makes watching a quick
// reconcile cost next to nothing.
type watchdog[request comparable] struct {
	limit  time.Duration
	report func(c *reconcileContext[request], took time.Duration, stack string)
	worker []byte // how the worker's goroutine is headed in a stack trace

	pending sync.WaitGroup // while the timer is armed or look runs

	mu        sync.Mutex // guards what follows
	timer     *time.Timer
	armed     bool
	running   *reconcileContext[request] // nil if none runs or it has been reported
	startedAt time.Time
}

// newWatchdog must be called by the worker itself. A limit of zero or less is none.
func newWatchdog[request comparable](limit time.Duration, report func(*reconcileContext[request], time.Duration, string)) *watchdog[request] {
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

// stop ends the watch. A report that is under way is waited for.
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

// check runs when the timer fires.
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

// maxStacks bounds the memory that is used to find one stack among all.
const maxStacks = 16 << 20

// stackOf returns the stack of the goroutine whose trace begins with head.
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
