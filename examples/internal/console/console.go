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

// New returns a logger that writes the messages of reconciles and all errors to w, each as one
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
	if object, more := s.about(keysAndValues); object != "" {
		s.write(object, message, more)
	}
}

func (s *sink) Error(err error, message string, keysAndValues ...any) {
	if err != nil {
		message += ": " + err.Error()
	}
	object, more := s.about(keysAndValues)
	s.write(object, message, more)
}

// about returns the object that a message is about, or the name of its controller if it has none,
// and the key-value pairs of the message alone. The object of a message that is not about a
// reconcile is "".
func (s *sink) about(keysAndValues []any) (object, more string) {
	values := map[any]any{}
	for i := 0; i+1 < len(s.values); i += 2 {
		values[s.values[i]] = s.values[i+1]
	}
	if _, ok := values["reconcileID"]; ok {
		kind := values["controllerKind"]
		if object = fmt.Sprintf("%v %v", kind, values[kind]); kind == nil || values[kind] == nil {
			object = fmt.Sprint(values["controller"])
		}
	}
	for i := 0; i+1 < len(keysAndValues); i += 2 {
		more += fmt.Sprintf("  %v: %v", keysAndValues[i], keysAndValues[i+1])
	}
	return object, more
}

// write writes one line.
func (s *sink) write(object, message, more string) {
	line := strings.ReplaceAll(strings.TrimSpace(object+"  "+message+more), "\n", " ")
	fmt.Fprintf(s.to, "%s  %s\n", time.Now().Format("15:04:05.000"), line)
}
