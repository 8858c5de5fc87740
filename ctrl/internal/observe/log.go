package observe

import (
	"fmt"
	"reflect"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"

	"flyball.dev/ctrl/client"
)

const (
	maxMessage = 1 << 10
	maxError   = 4 << 10
	maxValues  = 2 << 10
	maxValue   = 512
)

// Logger returns a logger that logs to l and records the lines in the run.
func (r *Recorder) Logger(run *Run, l logr.Logger) logr.Logger {
	next := l.GetSink()
	if next == nil {
		next = discard{}
	}
	return logr.New(&sink{recorder: r, run: run, direct: next, next: skipFrames(next)})
}

// skipFrames skips the frame of this package.
func skipFrames(s logr.LogSink) logr.LogSink {
	if d, ok := s.(logr.CallDepthLogSink); ok {
		return d.WithCallDepth(1)
	}
	return s
}

// discard is the sink of a logger without one.
type discard struct{}

func (discard) Init(logr.RuntimeInfo)            {}
func (discard) Enabled(int) bool                 { return false }
func (discard) Info(int, string, ...any)         {}
func (discard) Error(error, string, ...any)      {}
func (d discard) WithValues(...any) logr.LogSink { return d }
func (d discard) WithName(string) logr.LogSink   { return d }

// sink records lines and passes those on that the next sink is enabled for.
type sink struct {
	recorder     *Recorder
	run          *Run
	direct, next logr.LogSink
	values       []any // those that were added since the start of the reconcile
}

var _ logr.CallDepthLogSink = (*sink)(nil)

// Init implements logr.LogSink: the next sink is initialized.
func (s *sink) Init(logr.RuntimeInfo) {}

// Enabled implements logr.LogSink.
func (s *sink) Enabled(level int) bool {
	return s.next.Enabled(level) || level <= s.recorder.Level()
}

// Info implements logr.LogSink.
func (s *sink) Info(level int, message string, keysAndValues ...any) {
	s.record(level, nil, message, keysAndValues)
	if s.next.Enabled(level) {
		s.next.Info(level, message, keysAndValues...)
	}
}

// Error implements logr.LogSink.
func (s *sink) Error(err error, message string, keysAndValues ...any) {
	s.record(-1, err, message, keysAndValues)
	s.next.Error(err, message, keysAndValues...)
}

// WithValues implements logr.LogSink.
func (s *sink) WithValues(keysAndValues ...any) logr.LogSink {
	return s.derived(s.direct.WithValues(keysAndValues...), keysAndValues...)
}

// WithName implements logr.LogSink.
func (s *sink) WithName(name string) logr.LogSink { return s.derived(s.direct.WithName(name)) }

// WithCallDepth implements logr.CallDepthLogSink.
func (s *sink) WithCallDepth(depth int) logr.LogSink {
	if d, ok := s.direct.(logr.CallDepthLogSink); ok {
		return s.derived(d.WithCallDepth(depth))
	}
	return s
}

func (s *sink) derived(next logr.LogSink, keysAndValues ...any) logr.LogSink {
	values := append(s.values[:len(s.values):len(s.values)], keysAndValues...)
	return &sink{s.recorder, s.run, next, skipFrames(next), values}
}

// record records a line, unless there is no place for it: then it is not even formatted.
func (s *sink) record(level int, err error, message string, keysAndValues []any) {
	s.recorder.changes.Add(1)
	if s.run.drop(aLine) {
		return
	}
	line := Line{At: time.Since(s.run.Started), Level: level, Message: clip(message, maxMessage)}
	var b strings.Builder
	if err != nil {
		b.WriteString("error=")
		b.WriteString(quoted(err.Error()))
	}
	write := func(keysAndValues []any) {
		for i := 0; i < len(keysAndValues) && b.Len() < maxValues; i += 2 {
			if b.Len() > 0 {
				b.WriteByte(' ')
			}
			key, ok := keysAndValues[i].(string)
			if !ok {
				key = fmt.Sprint(keysAndValues[i])
			}
			b.WriteString(clip(key, 64))
			b.WriteByte('=')
			if i+1 < len(keysAndValues) {
				b.WriteString(Text(keysAndValues[i+1]))
			}
		}
	}
	write(keysAndValues)
	write(s.values)
	line.Values = clip(b.String(), maxValues)
	s.run.addLine(line)
}

// Text formats a logged value. Of an object it has the kind and the name alone, and of bytes their number, so that no
// Secret is recorded.
func Text(value any) (text string) {
	defer func() {
		if recover() != nil {
			text = fmt.Sprintf("(a %T that cannot be formatted)", value)
		}
	}()
	switch v := value.(type) {
	case nil:
		return "null"
	case string:
		return quoted(v)
	case error:
		return quoted(v.Error())
	case client.Object:
		if reflect.ValueOf(v).IsNil() {
			return "null"
		}
		return quoted(strings.TrimSpace(v.GetObjectKind().GroupVersionKind().Kind + " " + klog.KObj(v).String()))
	case runtime.Object, interface{ Unmarshal([]byte) error }: // its String would print a Secret
		return fmt.Sprintf("(%T)", value)
	case logr.Marshaler:
		return Text(v.MarshalLog())
	case fmt.Stringer:
		return quoted(v.String())
	}
	v := reflect.ValueOf(value)
	switch v.Kind() {
	case reflect.Slice, reflect.Map, reflect.Array:
		if v.Len() > maxValue { // the text would be cut off, but only after all of it is formatted
			return fmt.Sprintf("(a %T of %d)", value, v.Len())
		}
	}
	switch v.Kind() {
	case reflect.Struct, reflect.Map, reflect.Slice, reflect.Array, reflect.Pointer, reflect.Interface, reflect.Func, reflect.Chan:
		if !plain(v.Type(), 0) {
			return fmt.Sprintf("(%T)", value)
		}
		return quoted(fmt.Sprintf("%+v", value))
	default:
		return clip(fmt.Sprint(value), maxValue)
	}
}

// plain reports whether values of a type consist of numbers, booleans and strings, a few levels deep, without bytes: a
// Secret, wherever it is, does not.
func plain(t reflect.Type, depth int) bool {
	if depth > 3 {
		return false
	}
	switch t.Kind() {
	case reflect.Struct:
		for i := range t.NumField() {
			if !plain(t.Field(i).Type, depth+1) {
				return false
			}
		}
		return true
	case reflect.Slice, reflect.Array:
		return t.Elem().Kind() != reflect.Uint8 && plain(t.Elem(), depth+1)
	case reflect.Map:
		// The stringData of a Secret is one of these too.
		return t.Elem().Kind() != reflect.String && plain(t.Elem(), depth+1)
	case reflect.Pointer, reflect.Interface, reflect.Func, reflect.Chan, reflect.UnsafePointer:
		return false
	default:
		return true
	}
}

// quoted returns a text as it is, or in quotes if it has spaces.
func quoted(s string) string {
	s = clip(s, maxValue)
	if strings.ContainsAny(s, " \t\n\"=") || s == "" {
		return fmt.Sprintf("%q", s)
	}
	return s
}

// clip shortens a text to n bytes.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}
