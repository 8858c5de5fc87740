package shell

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// echo writes its arguments. Escapes are interpreted after -e.
func echo(c *invocation) int {
	args := c.args[1:]
	newline, escapes := true, false
options:
	for len(args) > 0 && len(args[0]) > 1 && args[0][0] == '-' && strings.Trim(args[0][1:], "neE") == "" {
		for _, f := range args[0][1:] {
			switch f {
			case 'n':
				newline = false
			case 'e':
				escapes = true
			case 'E':
				escapes = false
			default:
				break options
			}
		}
		args = args[1:]
	}
	text := strings.Join(args, " ")
	if escapes {
		var stop bool
		if text, stop = unescape(text, true); stop {
			newline = false
		}
	}
	if newline {
		text += "\n"
	}
	c.printf("%s", text)
	return 0
}

// unescape replaces the escapes of echo -e, or of a format of printf. stop reports \c.
func unescape(s string, zero bool) (_ string, stop bool) {
	if !strings.Contains(s, `\`) {
		return s, false
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			b.WriteByte(s[i])
			continue
		}
		i++
		number := func(from, most, base int) bool {
			n := from
			for n < len(s) && n-from < most && digit(s[n], base) {
				n++
			}
			v, err := strconv.ParseUint(s[from:n], base, 64)
			if err != nil {
				return false
			}
			if base == 16 && most > 2 {
				b.WriteRune(rune(v))
			} else {
				b.WriteByte(byte(v))
			}
			i = n - 1
			return true
		}
		switch e := s[i]; e {
		case 'a', 'b', 'f', 'n', 'r', 't', 'v', '\\', '"':
			b.WriteByte(map[byte]byte{'a': 7, 'b': 8, 'f': 12, 'n': 10, 'r': 13, 't': 9, 'v': 11, '\\': '\\', '"': '"'}[e])
		case 'e', 'E':
			b.WriteByte(27)
		case 'c':
			return b.String(), true
		case 'x', 'u', 'U':
			if !number(i+1, map[byte]int{'x': 2, 'u': 4, 'U': 8}[e], 16) {
				b.WriteByte('\\')
				b.WriteByte(e)
			}
		case '0':
			if !zero || !number(i+1, 3, 8) {
				number(i, 3, 8)
			}
		case '1', '2', '3', '4', '5', '6', '7':
			number(i, 3, 8)
		default:
			b.WriteByte('\\')
			b.WriteByte(e)
		}
	}
	return b.String(), false
}

func digit(b byte, base int) bool {
	if base == 8 {
		return b >= '0' && b <= '7'
	}
	return b >= '0' && b <= '9' || b >= 'a' && b <= 'f' || b >= 'A' && b <= 'F'
}

// maxWidth bounds the width and the precision of a format.
const maxWidth = 4096

// printf writes its arguments by a format, which is used again while there are arguments.
func printf(c *invocation) int {
	args := c.args[1:]
	name := ""
	if len(args) > 1 && args[0] == "-v" {
		name, args = args[1], args[2:]
	}
	if len(args) > 0 && args[0] == "--" {
		args = args[1:]
	}
	if len(args) == 0 {
		c.errorf("usage: printf FORMAT [ARG]...")
		return 2
	}
	f := &formatter{args: args[1:]}
	var text strings.Builder
	for {
		before := len(f.args)
		part, stop, err := f.format(args[0])
		if text.WriteString(part); text.Len() > c.in.limits.Memory {
			panic(&limitError{"printf: the output has more than " + strconv.Itoa(c.in.limits.Memory) + " bytes"})
		}
		c.in.step(1 + len(part)>>10)
		if err != nil {
			c.printf("%s", text.String())
			return c.errorf("%v", err)
		}
		if stop || len(f.args) == 0 || len(f.args) == before {
			break
		}
	}
	if name != "" {
		c.in.setText(name, text.String())
	} else {
		c.printf("%s", text.String())
	}
	for _, problem := range f.problems {
		c.errorf("%s", problem)
	}
	return oneIf(len(f.problems) > 0)
}

// formatter takes arguments for formats.
type formatter struct {
	args     []string
	problems []string
}

func (f *formatter) next() string {
	if len(f.args) == 0 {
		return ""
	}
	a := f.args[0]
	f.args = f.args[1:]
	return a
}

// integer parses an argument as C does: 0x1f, 017, 'c.
func (f *formatter) integer() int64 {
	a := f.next()
	if a == "" {
		return 0
	}
	if a[0] == '\'' || a[0] == '"' {
		for _, r := range a[1:] {
			return int64(r)
		}
		return 0
	}
	n, err := strconv.ParseInt(strings.TrimSpace(a), 0, 64)
	if u, e := strconv.ParseUint(strings.TrimSpace(a), 0, 64); err != nil && e == nil {
		return int64(u)
	}
	if err != nil {
		f.problems = append(f.problems, a+": invalid number")
	}
	return n
}

// format formats once, and takes the arguments that the format needs.
func (f *formatter) format(format string) (text string, stop bool, err error) {
	var b strings.Builder
	for format != "" {
		i := strings.IndexByte(format, '%')
		if i < 0 {
			i = len(format)
		}
		part, stop := unescape(format[:i], false)
		if b.WriteString(part); stop {
			return b.String(), true, nil
		}
		if format = format[i:]; format == "" {
			break
		}
		if strings.HasPrefix(format, "%%") {
			b.WriteByte('%')
			format = format[2:]
			continue
		}
		spec := "%"
		i = 1
		for i < len(format) && strings.IndexByte("-+ #0123456789.*", format[i]) >= 0 {
			if format[i] == '*' {
				spec += strconv.FormatInt(max(min(f.integer(), maxWidth), -maxWidth), 10)
			} else {
				spec += format[i : i+1]
			}
			i++
		}
		for i < len(format) && strings.IndexByte("lhqjzL", format[i]) >= 0 && i+1 < len(format) && strings.IndexByte("diouxXfeEgGlhjz", format[i+1]) >= 0 {
			i++
		}
		if i == len(format) {
			return b.String(), false, fmt.Errorf("%s: invalid format", format)
		}
		if tooWide(spec) {
			return b.String(), false, errors.New("a width is too large")
		}
		verb := format[i]
		format = format[i+1:]
		switch verb {
		case 'd', 'i':
			fmt.Fprintf(&b, spec+"d", f.integer())
		case 'u':
			fmt.Fprintf(&b, spec+"d", uint64(f.integer()))
		case 'o', 'x', 'X':
			fmt.Fprintf(&b, spec+string(verb), uint64(f.integer()))
		case 'c':
			a := f.next()
			fmt.Fprintf(&b, spec+"s", a[:min(1, len(a))])
		case 's':
			fmt.Fprintf(&b, spec+"s", f.next())
		case 'q':
			fmt.Fprintf(&b, spec+"s", quote(f.next()))
		case 'b':
			text, stop := unescape(f.next(), true)
			fmt.Fprintf(&b, spec+"s", text)
			if stop {
				return b.String(), true, nil
			}
		case 'f', 'F', 'e', 'E', 'g', 'G':
			a := f.next()
			n, err := strconv.ParseFloat(a, 64)
			if err != nil && a != "" {
				f.problems = append(f.problems, a+": invalid number")
			}
			fmt.Fprintf(&b, spec+string(verb), n)
		default:
			return b.String(), false, fmt.Errorf("%%%c: invalid format", verb)
		}
	}
	return b.String(), false, nil
}

// tooWide reports whether a width or precision is too large.
func tooWide(spec string) bool {
	for n := range strings.FieldsFuncSeq(spec, func(r rune) bool { return r < '0' || r > '9' }) {
		if v, err := strconv.Atoi(n); err != nil || v > maxWidth {
			return true
		}
	}
	return false
}
