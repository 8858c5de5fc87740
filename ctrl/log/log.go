// Package log has the root logger of ctrl.
//
// Log, and loggers derived from it, can be used before the program has called SetLogger, which sets
// the sink of all of them. Until then messages are dropped. If SetLogger has not been called after
// 30 seconds, the next message that is dropped prints a warning, once, to standard error.
//
// Loggers are [logr.Logger]s. Package zap creates one.
package log

import (
	"context"
	"os"

	"github.com/go-logr/logr"

	"flyball.dev/ctrl/internal/aliasvar"
)

// Log is the root of the loggers in ctrl. It drops all messages until SetLogger is called.
var Log = logr.New(&sink{root: program})

var current = aliasvar.Var[logr.Logger]{Original: &Log}

// Current returns the logger that the runtime derives its own from: [Log], or its alias. It is an
// addition of Flyball.
func Current() logr.Logger { return current.Get() }

// AliasLog makes Current return the value at alias instead of [Log] once it has been changed. It
// is an addition of Flyball, for packages that export the variable under another import path, and
// is called when they are initialized.
func AliasLog(alias *logr.Logger) { current.SetAlias(alias) }

var program = newRoot(os.Stderr)

// SetLogger makes Log, and the loggers derived from it, log to l. Only the first call has an
// effect, so that libraries and tests cannot replace the logger later. It is safe for concurrent
// use.
func SetLogger(l logr.Logger) {
	program.set(l.GetSink())
}

// FromContext returns the logger in ctx, or else Log, with the given keys and values added.
func FromContext(ctx context.Context, keysAndValues ...any) logr.Logger {
	l := Current()
	if ctx != nil {
		if in, err := logr.FromContext(ctx); err == nil {
			l = in
		}
	}
	return l.WithValues(keysAndValues...)
}

// IntoContext returns a context with log, for FromContext.
func IntoContext(ctx context.Context, log logr.Logger) context.Context {
	return logr.NewContext(ctx, log)
}

// NullLogSink drops all messages.
type NullLogSink struct{}

var _ logr.LogSink = NullLogSink{}

// Init does nothing.
func (log NullLogSink) Init(logr.RuntimeInfo) {}

// Info does nothing.
func (NullLogSink) Info(_ int, _ string, _ ...any) {}

// Enabled is false.
func (NullLogSink) Enabled(level int) bool { return false }

// Error does nothing.
func (NullLogSink) Error(_ error, _ string, _ ...any) {}

// WithName returns the receiver.
func (log NullLogSink) WithName(_ string) logr.LogSink { return log }

// WithValues returns the receiver.
func (log NullLogSink) WithValues(_ ...any) logr.LogSink { return log }
