package development

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"

	"github.com/go-logr/logr"
)

// containment keeps a panic of a check from ending the process. The panic is a mistake of the check, or
// of a method of an object that it reads. It is safe for concurrent use.
type containment struct {
	logger logr.Logger
	// onPanic, if not nil, is called with every panic, for tests.
	onPanic func(any)

	logged sync.Map // the places of the panics that were logged, as string
}

// do calls a function that is part of a check. It logs a panic once for each place, but for a panic of the program's own
// OnWarning.
func (c *containment) do(f func()) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case programPanic:
			panic(p.value)
		default:
			c.report(p)
		}
	}()
	f()
}

func (c *containment) report(p any) {
	if c.onPanic != nil {
		c.onPanic(p)
	}
	if _, known := c.logged.LoadOrStore(placeOfPanic(), true); !known {
		c.logger.Error(nil, "A check of Options.Development has panicked, and was skipped; please report it",
			"panic", fmt.Sprint(p), "stack", string(debug.Stack()))
	}
}

// placeOfPanic returns the file and line that panicked, in a function that was deferred by it.
func placeOfPanic() string {
	pcs := make([]uintptr, 64)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(0, pcs)])
	for panicking := false; ; {
		frame, more := frames.Next()
		switch inRuntime := strings.HasPrefix(frame.Function, "runtime."); {
		case frame.Function == "runtime.gopanic":
			panicking = true
		case panicking && !inRuntime:
			return fmt.Sprint(frame.File, ":", frame.Line)
		}
		if !more {
			return ""
		}
	}
}
