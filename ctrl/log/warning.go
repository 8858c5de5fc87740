package log

import (
	"context"
	"sync"
)

// KubeAPIWarningLoggerOptions are the options of a KubeAPIWarningLogger.
type KubeAPIWarningLoggerOptions struct {
	// Deduplicate logs each message only once. It stores all messages, so memory grows with the
	// number of distinct ones.
	Deduplicate bool
}

// KubeAPIWarningLogger logs the warnings in the responses of an API server, to the logger in the
// request's context. It is a rest.WarningHandlerWithContext.
type KubeAPIWarningLogger struct {
	opts KubeAPIWarningLoggerOptions
	seen sync.Map // message → struct{}
}

// NewKubeAPIWarningLogger returns a warning handler for a rest.Config.
func NewKubeAPIWarningLogger(opts KubeAPIWarningLoggerOptions) *KubeAPIWarningLogger {
	return &KubeAPIWarningLogger{opts: opts}
}

// warningPersistent is the code of warnings of the API itself; others come from
// proxies and caches.
const warningPersistent = 299

// HandleWarningHeaderWithContext logs message if it is a warning of the API. It
// is safe for concurrent use.
func (l *KubeAPIWarningLogger) HandleWarningHeaderWithContext(ctx context.Context, code int, _ string, message string) {
	if code != warningPersistent || message == "" {
		return
	}
	if l.opts.Deduplicate {
		if _, seen := l.seen.LoadOrStore(message, struct{}{}); seen {
			return
		}
	}
	FromContext(ctx).WithName("KubeAPIWarningLogger").Info(message)
}
