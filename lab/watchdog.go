package lab

import (
	"context"
	"fmt"
	"regexp"
	"runtime"
	"strings"
	"time"
)

// stuckAfter is the real time after which a run without progress is stuck.
var stuckAfter = time.Minute

// watch watches a run from outside of its bubble until the function that it returns is called. If a goroutine of the run
// waits for something outside of the bubble, the bubble is never quiet, virtual time stands still, and nothing can end its
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
				panic(fmt.Sprintf("lab: the operator waits for something outside of its bubble, such as a socket, a file or a process, and time stands still. "+
					"All requests to the cluster must go through the configuration that Start gets, and other calls through lab.Call or lab.Transport. "+
					"These goroutines run:\n\n%s", outside()))
			}
			last = now
		}
	}()
	return func() { close(done) }
}

var bubbled = regexp.MustCompile(`^goroutine \d+ \[[^\]]*synctest bubble`)

// outside returns the stacks of the goroutines in bubbles that are not blocked for good.
func outside() string {
	buffer := make([]byte, 16<<20)
	buffer = buffer[:runtime.Stack(buffer, true)]
	var found []string
	for stack := range strings.SplitSeq(string(buffer), "\n\n") {
		header, _, _ := strings.Cut(stack, "\n")
		if bubbled.MatchString(header) && !strings.Contains(header, "(durable)") && !strings.Contains(header, "synctest.Wait") {
			found = append(found, stack)
		}
	}
	return strings.Join(found, "\n\n")
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
