package log

import (
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
)

// warnAfter is how long a program may log without a logger before a warning is printed.
const warnAfter = 30 * time.Second

// root has the sink that SetLogger sets, once.
type root struct {
	real    atomic.Pointer[logr.LogSink]
	created time.Time
	warn    sync.Once
	stderr  io.Writer
}

func newRoot(stderr io.Writer) *root {
	return &root{created: time.Now(), stderr: stderr}
}

func (r *root) set(s logr.LogSink) {
	if s == nil {
		s = NullLogSink{}
	}
	r.real.CompareAndSwap(nil, &s)
}

// dropped is called for each dropped message.
func (r *root) dropped() {
	if time.Since(r.created) < warnAfter {
		return
	}
	r.warn.Do(func() {
		fmt.Fprintln(r.stderr, "log.SetLogger(...) was never called; logs will not be displayed.")
	})
}

// sink is a logr.LogSink that delegates to the sink that SetLogger sets. It records how it was
// derived, and derives its target in the same way once that sink is set.
type sink struct {
	root   *root
	parent *sink
	derive func(logr.LogSink) logr.LogSink
	ready  atomic.Pointer[target]
}

// target is what a sink delegates to: as it is, to derive others from, and with a call depth that
// skips the frame of this package.
type target struct {
	direct, called logr.LogSink
}

var _ logr.CallDepthLogSink = (*sink)(nil)

// target returns the target, or nil if SetLogger has not been called.
func (s *sink) target() *target {
	if t := s.ready.Load(); t != nil {
		return t
	}
	real := s.root.real.Load()
	if real == nil {
		return nil
	}
	direct := *real
	if s.parent != nil {
		direct = s.derive(s.parent.target().direct)
	}
	t := &target{direct: direct, called: skipFrames(direct, 1)}
	s.ready.Store(t)
	return t
}

func skipFrames(s logr.LogSink, n int) logr.LogSink {
	if d, ok := s.(logr.CallDepthLogSink); ok {
		return d.WithCallDepth(n)
	}
	return s
}

// child derives a sink, from the target if there is one.
func (s *sink) child(derive func(logr.LogSink) logr.LogSink) logr.LogSink {
	if t := s.target(); t != nil {
		return derive(t.direct)
	}
	return &sink{root: s.root, parent: s, derive: derive}
}

func (s *sink) Init(logr.RuntimeInfo) {}

func (s *sink) Enabled(level int) bool {
	if t := s.target(); t != nil {
		return t.called.Enabled(level)
	}
	s.root.dropped()
	return false
}

func (s *sink) Info(level int, msg string, keysAndValues ...any) {
	if t := s.target(); t != nil {
		t.called.Info(level, msg, keysAndValues...)
	}
}

func (s *sink) Error(err error, msg string, keysAndValues ...any) {
	if t := s.target(); t != nil {
		t.called.Error(err, msg, keysAndValues...)
		return
	}
	s.root.dropped()
}

func (s *sink) WithName(name string) logr.LogSink {
	return s.child(func(l logr.LogSink) logr.LogSink { return l.WithName(name) })
}

func (s *sink) WithValues(tags ...any) logr.LogSink {
	return s.child(func(l logr.LogSink) logr.LogSink { return l.WithValues(tags...) })
}

func (s *sink) WithCallDepth(depth int) logr.LogSink {
	return s.child(func(l logr.LogSink) logr.LogSink { return skipFrames(l, depth) })
}
