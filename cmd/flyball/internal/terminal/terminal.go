// Package terminal detects the capabilities of an output, and writes texts of others to it.
package terminal

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"unicode"

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

// Quoted returns a text of somebody else's in one line, with the characters that are not printable as in a string of Go: a
// terminal obeys escape sequences, and a reader believes text that is written from right to left.
func Quoted(text string) string {
	if strings.IndexFunc(text, func(r rune) bool { return !unicode.IsPrint(r) || r == unicode.ReplacementChar }) < 0 {
		return text
	}
	var b strings.Builder
	for i, r := range text {
		switch {
		case unicode.IsPrint(r) && r != unicode.ReplacementChar:
			b.WriteRune(r)
		case strings.HasPrefix(text[i:], string(r)):
			b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		default: // no UTF-8
			fmt.Fprintf(&b, `\x%02x`, text[i])
		}
	}
	return b.String()
}

// Printf writes a text. The strings among the arguments are quoted as by [Quoted], the format is not.
func Printf(w io.Writer, format string, args ...any) {
	quoted := make([]any, len(args))
	for i, arg := range args {
		if text, ok := arg.(string); ok {
			arg = Quoted(text)
		}
		quoted[i] = arg
	}
	fmt.Fprintf(w, format, quoted...)
}
