// Package log holds the logger that everything in ctrl logs to.
//
// Log can be used, and loggers derived from it, before the program has decided
// where its logs go: SetLogger connects them all. Until then messages are
// dropped. A program that is still without a logger after 30 seconds is told so
// once, on standard error, when it next logs something.
//
// Loggers are [logr.Logger]s. The package zap below makes one.
package log

import (
	"context"
	"os"

	"github.com/go-logr/logr"
)

// Log is the root of the loggers in ctrl. It drops everything until SetLogger
// is called.
var Log = logr.New(&sink{root: program})

var program = newRoot(os.Stderr)

// SetLogger sends everything that Log and the loggers derived from it are given
// to l. Only the first call has an effect, so that libraries and tests that come
// later do not take over. It is safe for concurrent use.
func SetLogger(l logr.Logger) {
	program.set(l.GetSink())
}

// FromContext returns the logger that ctx carries, or else Log, with the given
// keys and values added.
func FromContext(ctx context.Context, keysAndValues ...any) logr.Logger {
	l := Log
	if ctx != nil {
		if in, err := logr.FromContext(ctx); err == nil {
			l = in
		}
	}
	return l.WithValues(keysAndValues...)
}

// IntoContext returns a context that carries log, for FromContext to find.
func IntoContext(ctx context.Context, log logr.Logger) context.Context {
	return logr.NewContext(ctx, log)
}

// NullLogSink drops everything.
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
