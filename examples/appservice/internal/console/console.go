// Package console writes log messages for people who watch a terminal: the time, the object, and what
// happened.
package console

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
)

// Shared returns a writer to w that many goroutines may write to at once.
func Shared(w io.Writer) io.Writer { return &shared{w: w} }

type shared struct {
	mu sync.Mutex
	w  io.Writer
}

func (s *shared) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.w.Write(p)
}

// New returns a logger that writes each message to w with one call, as one line. Messages for
// debugging are left out.
func New(w io.Writer) logr.Logger { return logr.New(&sink{to: w}) }

type sink struct {
	to     io.Writer
	values []any
}

// framework are the values that say which controller speaks, which there is only one of.
var framework = map[string]bool{
	"controller": true, "controllerGroup": true, "controllerKind": true, "reconcileID": true,
	"namespace": true, "name": true, "source": true, "kind": true, "worker count": true,
}

func (s *sink) Init(logr.RuntimeInfo)  {}
func (s *sink) Enabled(level int) bool { return level == 0 }

func (s *sink) WithName(string) logr.LogSink { return s }

func (s *sink) WithValues(keysAndValues ...any) logr.LogSink {
	c := *s
	c.values = append(c.values[:len(c.values):len(c.values)], keysAndValues...)
	return &c
}

func (s *sink) Info(_ int, message string, keysAndValues ...any) { s.write(message, keysAndValues) }

func (s *sink) Error(err error, message string, keysAndValues ...any) {
	if err != nil {
		message += ": " + err.Error()
	}
	s.write(message, keysAndValues)
}

func (s *sink) write(message string, more []any) {
	object, rest := "", ""
	values := append(s.values[:len(s.values):len(s.values)], more...)
	for i := 0; i+1 < len(values); i += 2 {
		switch key := fmt.Sprint(values[i]); {
		case key == "AppService":
			object = fmt.Sprint(values[i+1]) + "  "
		case !framework[key]:
			rest += fmt.Sprintf("  %s: %v", key, values[i+1])
		}
	}
	line := strings.ReplaceAll(object+message+rest, "\n", " ")
	fmt.Fprintf(s.to, "%s  %s\n", time.Now().Format("15:04:05.000"), line)
}
