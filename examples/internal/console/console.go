// Package console has a logger for terminals, which writes the time, the object and the message.
package console

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
)

// Synchronized returns a writer to w that several goroutines may use at once.
func Synchronized(w io.Writer) io.Writer { return &synchronized{w: w} }

// synchronized is a writer with a lock.
type synchronized struct {
	mu sync.Mutex
	w  io.Writer
}

func (s *synchronized) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.w.Write(p)
}

// New returns a logger that writes the messages of reconcilers and webhooks, and all errors to w, each as one
// line with one Write. It drops all other messages, which are about the runtime.
func New(w io.Writer) logr.Logger { return logr.New(&sink{to: w}) }

// sink is a logr.LogSink.
type sink struct {
	to     io.Writer
	values []any
}

func (s *sink) Init(logr.RuntimeInfo)  {}
func (s *sink) Enabled(level int) bool { return level == 0 }

func (s *sink) WithName(string) logr.LogSink { return s }

func (s *sink) WithValues(keysAndValues ...any) logr.LogSink {
	c := *s
	c.values = append(c.values[:len(c.values):len(c.values)], keysAndValues...)
	return &c
}

func (s *sink) Info(_ int, message string, keysAndValues ...any) {
	if subject, more := s.about(keysAndValues); subject != "" {
		s.write(subject, message, more)
	}
}

func (s *sink) Error(err error, message string, keysAndValues ...any) {
	if err != nil {
		message += ": " + err.Error()
	}
	subject, more := s.about(keysAndValues)
	s.write(subject, message, more)
}

// about returns what a message is about, and the key-value pairs of the message alone. That is the
// object of a reconcile or the name of its controller, or the kind of an admission request; it is ""
// if the message is about the runtime.
func (s *sink) about(keysAndValues []any) (subject, more string) {
	values := map[any]any{}
	for i := 0; i+1 < len(s.values); i += 2 {
		values[s.values[i]] = s.values[i+1]
	}
	kind := values["controllerKind"]
	switch {
	case values["requestID"] != nil:
		subject = fmt.Sprintf("%v webhook", values["webhookKind"])
	case values["reconcileID"] == nil:
	case kind == nil || values[kind] == nil:
		subject = fmt.Sprint(values["controller"])
	default:
		subject = fmt.Sprintf("%v %v", kind, values[kind])
	}
	for i := 0; i+1 < len(keysAndValues); i += 2 {
		more += fmt.Sprintf("  %v: %v", keysAndValues[i], keysAndValues[i+1])
	}
	return subject, more
}

// write writes one line.
func (s *sink) write(subject, message, more string) {
	line := strings.ReplaceAll(strings.TrimSpace(subject+"  "+message+more), "\n", " ")
	fmt.Fprintf(s.to, "%s  %s\n", time.Now().Format("15:04:05.000"), line)
}
