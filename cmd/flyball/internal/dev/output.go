package dev

import (
	"bytes"
	"fmt"
	"io"
	"sync"

	"flyball.dev/cmd/flyball/internal/terminal"
)

// output writes lines with a prefix for their source. It is safe for concurrent use.
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
	return &output{out: out, colour: terminal.Colours(out)}
}

// say writes lines of this program.
func (o *output) say(format string, args ...any) {
	fmt.Fprintf(o.own(), format+"\n", args...)
}

// own returns a writer of lines of this program.
func (o *output) own() *lineWriter {
	return &lineWriter{output: o, prefix: fromDev, colour: terminal.Cyan}
}

// fail writes lines about a failure.
func (o *output) fail(format string, args ...any) {
	w := &lineWriter{output: o, prefix: fromDev, colour: terminal.Red, whole: true}
	fmt.Fprintf(w, format+"\n", args...)
}

// maxLine is the maximum size of an unterminated line in memory.
const maxLine = 64 << 10

// lineWriter writes whole lines with a prefix, and lines longer than maxLine in parts. The caller must flush it at the
// end.
type lineWriter struct {
	output *output
	prefix string
	colour terminal.Colour
	whole  bool    // whether the whole line has the colour, and not the prefix alone
	stacks *stacks // folds stack traces; nil to fold none
	rest   []byte  // of a line that has no end yet
}

// Write writes the complete lines.
func (w *lineWriter) Write(b []byte) (int, error) {
	w.output.mu.Lock()
	defer w.output.mu.Unlock()
	w.rest = append(w.rest, b...)
	end := bytes.LastIndexByte(w.rest, '\n')
	if end < 0 && len(w.rest) >= maxLine {
		end = len(w.rest)
	}
	if end >= 0 {
		w.writeLines(bytes.Split(w.rest[:end], []byte("\n")))
		w.rest = append([]byte(nil), w.rest[min(end+1, len(w.rest)):]...)
	}
	return len(b), nil
}

// writeLines writes lines, with stack traces folded.
func (w *lineWriter) writeLines(lines [][]byte) {
	if w.stacks != nil {
		lines = w.stacks.fold(lines)
	}
	for _, line := range lines {
		w.write(line)
	}
}

// flush writes the last, unterminated line.
func (w *lineWriter) flush() {
	w.output.mu.Lock()
	defer w.output.mu.Unlock()
	if len(w.rest) > 0 {
		w.write(w.rest)
		w.rest = nil
	}
}

// write writes a line. It ignores errors, because a broken output, such as tee after Ctrl-C, must not prevent an
// orderly stop of the program that writes.
func (w *lineWriter) write(line []byte) {
	prefix, text := w.prefix, string(line)
	switch {
	case w.output.colour && w.whole:
		prefix, text = w.colour.Paint(prefix), w.colour.Paint(text)
	case w.output.colour:
		prefix = w.colour.Paint(prefix)
	}
	if _, err := fmt.Fprintf(w.output.out, "%s | %s\n", prefix, text); err != nil && w.output.closed != nil {
		w.output.closed()
	}
}
