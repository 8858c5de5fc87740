package observe

import (
	"errors"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"

	"flyball.dev/ctrl/internal/cause"
)

// counter is a value that counts how often it is formatted.
type counter struct{ n int }

func (c *counter) String() string { c.n++; return "a value" }

// marshaler is one that is marshaled.
type marshaler struct{ n int }

func (m *marshaler) MarshalLog() any { m.n++; return "a value" }

// failure is an error that counts.
type failure struct{ n int }

func (f *failure) Error() string { f.n++; return "an error" }

// TestDroppedLines logs 100,000 lines in a reconcile: a line that is not recorded is not formatted.
func TestDroppedLines(t *testing.T) {
	r := New(0)
	w := r.AddController(controls{name: "c"}).NewWorker()
	run := w.Begin(types.NamespacedName{Name: "x"}, nil, cause.Causes{}, 0, time.Now())
	value, object, err := &counter{}, &marshaler{}, &failure{}
	logger := r.Logger(run, logr.Discard()).WithValues("object", object)
	const n = 100_000
	for range n / 2 {
		logger.Info("A line", "value", value)
		logger.Error(err, "A line", "value", value)
	}
	c := run.Copy()
	if value.n != maxLines || object.n != maxLines || err.n != maxLines/2 {
		t.Errorf("of %d lines, %d, %d and %d values are formatted", n, value.n, object.n, err.n)
	}
	if len(c.Lines) != maxLines || c.Dropped[aLine] != n-maxLines {
		t.Errorf("%d lines are recorded, and %d are not", len(c.Lines), c.Dropped[aLine])
	}
	w.End(run, Outcome{Result: "success"}, false)
	logger.Info("A late line", "value", value)
	if value.n != maxLines {
		t.Error("a line after the end is formatted")
	}
}

// TestDroppedLinesAreLogged: the logger of the program has all lines.
func TestDroppedLinesAreLogged(t *testing.T) {
	r := New(0)
	w := r.AddController(controls{name: "c"}).NewWorker()
	run := w.Begin(types.NamespacedName{Name: "x"}, nil, cause.Causes{}, 0, time.Now())
	all := &lineCounter{}
	logger := r.Logger(run, logr.New(all))
	for range 1000 {
		logger.Info("A line")
		logger.Error(errors.New("x"), "A line")
	}
	if all.n != 2000 {
		t.Errorf("the logger has %d lines", all.n)
	}
}

// lineCounter is a sink that counts the lines.
type lineCounter struct {
	discard
	n int
}

func (c *lineCounter) Enabled(int) bool            { return true }
func (c *lineCounter) Info(int, string, ...any)    { c.n++ }
func (c *lineCounter) Error(error, string, ...any) { c.n++ }

// TestLongValues: a value that is too long to be shown is not formatted.
func TestLongValues(t *testing.T) {
	if text := Text(make([]int, 1_000_000)); text != "(a []int of 1000000)" {
		t.Errorf("a long slice is %s", text)
	}
	if text := Text([]int{1, 2}); text != `"[1 2]"` {
		t.Errorf("a short slice is %s", text)
	}
}
