// Package terminal detects the capabilities of an output.
package terminal

import (
	"io"
	"os"

	"golang.org/x/term"
)

// Is reports whether a writer is a terminal that supports escape sequences.
func Is(w io.Writer) bool {
	file, ok := w.(*os.File)
	return ok && term.IsTerminal(int(file.Fd())) && os.Getenv("TERM") != "dumb"
}

// Colours reports whether to write colours: the writer is a terminal and $NO_COLOR is not set.
func Colours(w io.Writer) bool {
	return Is(w) && os.Getenv("NO_COLOR") == ""
}

// A Colour is a colour of text.
type Colour string

// The colours: of errors, of this program and of the operator.
const (
	Red   Colour = "31"
	Green Colour = "32"
	Cyan  Colour = "36"
)

// Paint returns text with the escape sequences for a colour.
func (c Colour) Paint(text string) string { return "\x1b[" + string(c) + "m" + text + "\x1b[0m" }

// Error returns the text of an error for a writer, in red if the writer supports colours.
func Error(w io.Writer, text string) string {
	if !Colours(w) {
		return text
	}
	return Red.Paint(text)
}
