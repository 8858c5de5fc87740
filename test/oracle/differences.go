package main

import (
	"fmt"
	"os"
	"path"
	"strings"
)

// differencesFile lists the differences that are known.
const differencesFile = "testdata/differences.txt"

// unexplained is the reason of new lines in the list.
const unexplained = "# gap: not looked at yet"

// known is the list of known differences.
type known struct {
	entries []*knownDifference
}

// knownDifference is a line of the list: a pattern for the script and one for the exchange, and a
// difference.
type knownDifference struct {
	reason                       string
	line                         string
	script, exchange, difference string
	matches                      int
}

// loadKnown reads the list of known differences.
func loadKnown(file string) (*known, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	k := &known{}
	reason := ""
	for line := range strings.SplitSeq(string(content), "\n") {
		switch {
		case strings.TrimSpace(line) == "":
		case strings.HasPrefix(line, "#"):
			reason = line
		default:
			where, difference, found := strings.Cut(line, " | ")
			script, exchange, ok := strings.Cut(where, "/")
			if !found || !ok {
				return nil, fmt.Errorf("%s: %q is not script/exchange | difference", file, line)
			}
			k.entries = append(k.entries, &knownDifference{reason: reason, line: line, script: script, exchange: exchange, difference: difference})
		}
	}
	return k, nil
}

// find returns the entry of a difference, or nil, and counts the match.
func (k *known) find(script, exchange string, d difference) *knownDifference {
	for _, e := range k.entries {
		if matches(e.script, script) && matches(e.exchange, exchange) && matches(e.difference, d.String()) {
			e.matches++
			return e
		}
	}
	return nil
}

// matches reports whether a text matches a pattern. In the pattern, * matches any text.
func matches(pattern, text string) bool {
	parts := strings.Split(pattern, "*")
	if len(parts) == 1 {
		return pattern == text
	}
	rest, found := strings.CutPrefix(text, parts[0])
	if !found {
		return false
	}
	for _, part := range parts[1 : len(parts)-1] {
		_, after, found := strings.Cut(rest, part)
		if !found {
			return false
		}
		rest = after
	}
	return strings.HasSuffix(rest, parts[len(parts)-1])
}

// line returns the line of the list for a difference.
func line(script, exchange string, d difference) string {
	return path.Join(script) + "/" + exchange + " | " + d.String()
}

// rewrite writes the list without the entries that have matched nothing, and with the lines that
// are not in it yet.
func (k *known) rewrite(file string, missing []string) error {
	var text strings.Builder
	reason := ""
	write := func(why, line string) {
		if why != reason {
			if reason != "" {
				text.WriteString("\n")
			}
			fmt.Fprintln(&text, why)
			reason = why
		}
		fmt.Fprintln(&text, line)
	}
	for _, e := range k.entries {
		if e.matches > 0 {
			write(e.reason, e.line)
		}
	}
	for _, line := range missing {
		write(unexplained, line)
	}
	return os.WriteFile(file, []byte(text.String()), 0o644)
}
