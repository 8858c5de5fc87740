package shell

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// expression translates a regular expression of POSIX to Go's. A basic expression has \( \) \{ \} \| \+ \?.
func expression(s string, extended, ignoreCase bool) (*regexp.Regexp, error) {
	var b strings.Builder
	if ignoreCase {
		b.WriteString("(?i)")
	}
	start := true // of a branch
	for i := 0; i < len(s); i++ {
		switch ch := s[i]; {
		case ch == '[':
			end := bracketEnd(s, i)
			if end < 0 {
				return nil, errors.New("unmatched [")
			}
			b.WriteString(strings.ReplaceAll(s[i:end], `\`, `\\`))
			i = end - 1
		case ch == '\\' && i+1 < len(s):
			i++
			switch next := s[i]; {
			case next >= '1' && next <= '9':
				return nil, errors.New("back-references are not supported")
			case !extended && strings.IndexByte("(){}|+?", next) >= 0:
				b.WriteByte(next)
				if next == '(' || next == '|' {
					start = true
					continue
				}
			case next == '<' || next == '>':
				b.WriteString(`\b`)
			case strings.IndexByte("wWsSbB", next) >= 0:
				b.WriteByte('\\')
				b.WriteByte(next)
			case next == 'n':
				b.WriteString(`\n`)
			case next == 't':
				b.WriteString(`\t`)
			default:
				b.WriteString(regexp.QuoteMeta(string(next)))
			}
		case ch == '*' && start && !extended:
			b.WriteString(`\*`)
		case !extended && strings.IndexByte("(){}|+?", ch) >= 0:
			b.WriteString(regexp.QuoteMeta(string(ch)))
		case !extended && ch == '^' && !start, !extended && ch == '$' && i+1 < len(s) && !strings.HasPrefix(s[i+1:], `\)`) && !strings.HasPrefix(s[i+1:], `\|`):
			b.WriteString(regexp.QuoteMeta(string(ch)))
		default:
			b.WriteByte(ch)
			if ch == '^' || extended && (ch == '(' || ch == '|') {
				start = true
				continue
			}
		}
		start = false
	}
	if b.Len() > 8<<10 {
		return nil, errors.New("the regular expression is too long")
	}
	r, err := regexp.Compile(b.String())
	if err != nil {
		return nil, fmt.Errorf("invalid regular expression '%s'", s)
	}
	return r, nil
}

// bracketEnd returns the index after a bracket expression, or -1.
func bracketEnd(s string, from int) int {
	i := from + 1
	if i < len(s) && s[i] == '^' {
		i++
	}
	if i < len(s) && s[i] == ']' {
		i++
	}
	for i < len(s) {
		if strings.HasPrefix(s[i:], "[:") {
			if end := strings.Index(s[i:], ":]"); end > 0 {
				i += end + 2
				continue
			}
		}
		if s[i] == ']' {
			return i + 1
		}
		i++
	}
	return -1
}
