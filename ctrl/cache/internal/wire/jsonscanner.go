package wire

import (
	"bytes"
	"errors"
)

// objectSplitter cuts a stream into JSON objects.
type objectSplitter struct {
	scanner scanner
	// seen is how many bytes of the first object were scanned.
	seen int
}

func (o *objectSplitter) next(data []byte) (from, to int, err error) {
	from = len(data) - len(bytes.TrimLeft(data, whitespace))
	if from == len(data) {
		return 0, 0, nil
	}
	if data[from] != '{' {
		return 0, 0, errNotJSON
	}
	o.seen = max(o.seen, from)
	n, done, err := o.scanner.scan(data[o.seen:])
	o.seen += n
	switch {
	case err != nil:
		return 0, 0, err
	case o.seen-from > maxFrame:
		return 0, 0, errTooLarge
	case !done:
		return 0, 0, nil
	}
	to = o.seen
	*o = objectSplitter{scanner: scanner{open: o.scanner.open}}
	return from, to, nil
}

var errNotJSON = errors.New("invalid JSON in the watch stream")

const whitespace = " \t\r\n"

// scanner finds the end of a JSON value that may arrive in pieces. It rejects misplaced brackets,
// names, colons and commas at once; errors within strings, numbers and literals are found when they
// are decoded. It does not find the end of a top-level number or literal.
type scanner struct {
	open []byte // the brackets that are not closed yet
	next expectation
	// in is '"' within a string, '\\' after a backslash within one, and 'l' within a number or a
	// literal.
	in byte
}

// expectation is the set of tokens that may come next.
type expectation uint8

const (
	expectValue expectation = iota
	expectValueOrEnd
	expectName
	expectNameOrEnd
	expectColon
	expectCommaOrEnd
)

// maxDepth is the maximum nesting depth.
const maxDepth = 10_000

// scan scans more data and returns how many of its bytes belong to the value, and whether it is
// complete.
func (s *scanner) scan(data []byte) (n int, done bool, err error) {
	for i := 0; i < len(data); i++ {
		c := data[i]
		switch s.in {
		case '\\':
			s.in = '"'
			continue
		case '"':
			for c != '"' && c != '\\' {
				if i++; i == len(data) {
					return i, false, nil
				}
				c = data[i]
			}
			if s.in = c; c == '"' {
				s.in = 0
				if s.next == expectCommaOrEnd && len(s.open) == 0 {
					return i + 1, true, nil
				}
			}
			continue
		case 'l':
			if isLiteralByte(c) {
				continue
			}
			s.in = 0
		}
		switch {
		case c == ' ' || c == '\n' || c == '\t' || c == '\r':
		case !s.accept(c):
			return i, false, errNotJSON
		case s.next == expectCommaOrEnd && len(s.open) == 0 && s.in == 0:
			return i + 1, true, nil
		}
	}
	return len(data), false, nil
}

// accept consumes the first byte of a token and reports whether the token is expected.
func (s *scanner) accept(c byte) bool {
	value := s.next == expectValue || s.next == expectValueOrEnd
	switch c {
	case '{', '[':
		if !value || len(s.open) == maxDepth {
			return false
		}
		s.open = append(s.open, c)
		if s.next = expectNameOrEnd; c == '[' {
			s.next = expectValueOrEnd
		}
		return true
	case '}', ']':
		last := len(s.open) - 1
		if last < 0 || s.open[last]+2 != c ||
			s.next != expectCommaOrEnd && s.next != expectNameOrEnd && s.next != expectValueOrEnd {
			return false
		}
		s.open, s.next = s.open[:last], expectCommaOrEnd
		return true
	case '"':
		s.in = '"'
		switch {
		case value:
			s.next = expectCommaOrEnd
		case s.next == expectName || s.next == expectNameOrEnd:
			s.next = expectColon
		default:
			return false
		}
		return true
	case ':':
		ok := s.next == expectColon
		s.next = expectValue
		return ok
	case ',':
		ok := s.next == expectCommaOrEnd && len(s.open) > 0
		if s.next = expectName; ok && s.open[len(s.open)-1] == '[' {
			s.next = expectValue
		}
		return ok
	default:
		s.in, s.next = 'l', expectCommaOrEnd
		return value && isLiteralByte(c)
	}
}

// isLiteralByte reports whether a byte may be part of a number, true, false or null.
func isLiteralByte(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || c == '-' || c == '+' || c == '.' || c == 'E'
}
