package dev

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"sync"

	"golang.org/x/term"
)

// output writes lines with a prefix that says whose they are. It is safe for concurrent use.
type output struct {
	mu     sync.Mutex
	out    io.Writer
	colour bool
	closed func() // called if nobody reads the output any more; nil for nothing
}

// The sources of lines, all of the same length.
const (
	fromDev      = "flyball "
	fromOperator = "operator"
)

// newOutput returns an output, with colours if it is a terminal and $NO_COLOR is empty.
func newOutput(out io.Writer) *output {
	file, ok := out.(*os.File)
	return &output{out: out, colour: ok && term.IsTerminal(int(file.Fd())) && os.Getenv("NO_COLOR") == ""}
}

// say writes lines of this program.
func (o *output) say(format string, args ...any) {
	w := &lineWriter{output: o, prefix: fromDev, colour: "36"}
	fmt.Fprintf(w, format+"\n", args...)
}

// fail writes lines about something that is wrong.
func (o *output) fail(format string, args ...any) {
	w := &lineWriter{output: o, prefix: fromDev, colour: "31"}
	fmt.Fprintf(w, format+"\n", args...)
}

// maxLine is how much of a line without an end is kept in memory.
const maxLine = 64 << 10

// lineWriter writes whole lines with a prefix, those longer than maxLine in parts. It must be flushed at
// the end.
type lineWriter struct {
	output         *output
	prefix, colour string
	rest           []byte // of a line that has no end yet
}

// Write writes the lines that have ended.
func (w *lineWriter) Write(b []byte) (int, error) {
	w.output.mu.Lock()
	defer w.output.mu.Unlock()
	w.rest = append(w.rest, b...)
	for {
		line, after, ok := bytes.Cut(w.rest, []byte("\n"))
		switch {
		case !ok && len(w.rest) < maxLine:
			return len(b), nil
		case !ok:
			line = w.rest
		}
		w.write(line)
		w.rest = after
	}
}

// flush writes a last line that has no end.
func (w *lineWriter) flush() {
	w.output.mu.Lock()
	defer w.output.mu.Unlock()
	if len(w.rest) > 0 {
		w.write(w.rest)
		w.rest = nil
	}
}

// write writes a line. An error is that of the reader, such as tee after Ctrl-C, and not of the program
// that writes, which has to be stopped in order.
func (w *lineWriter) write(line []byte) {
	prefix := w.prefix
	if w.output.colour {
		prefix = "\x1b[" + w.colour + "m" + prefix + "\x1b[0m"
	}
	if _, err := fmt.Fprintf(w.output.out, "%s | %s\n", prefix, line); err != nil && w.output.closed != nil {
		w.output.closed()
	}
}
