package shell

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"syscall"
)

// sedAddress selects lines.
type sedAddress struct {
	line int // 0 if there is an expression
	last bool
	expr *regexp.Regexp
}

// sedCommand is a command of sed.
type sedCommand struct {
	from, to *sedAddress
	inRange  bool
	not      bool
	name     byte
	text     string // of a, i and c
	expr     *regexp.Regexp
	with     string
	nth      int
	global   bool
	print    bool
	table    map[rune]rune
	block    []*sedCommand
}

// sedScript parses the script of sed: the commands a, c, d, i, n, p, q, s, y, = and blocks.
type sedScript struct {
	rest     string
	extended bool
	depth    int
	previous *regexp.Regexp
}

func (s *sedScript) skip(set string) { s.rest = strings.TrimLeft(s.rest, set) }

// commands parses to the end of the script, or of a block.
func (s *sedScript) commands(block bool) (list []*sedCommand, err error) {
	for {
		s.skip(" \t\n;")
		if s.rest == "" {
			if block {
				return nil, errors.New("unmatched {")
			}
			return list, nil
		}
		if s.rest[0] == '#' {
			_, s.rest, _ = strings.Cut(s.rest, "\n")
			continue
		}
		if s.rest[0] == '}' {
			s.rest = s.rest[1:]
			if !block {
				return nil, errors.New("unexpected }")
			}
			return list, nil
		}
		c, err := s.command()
		if err != nil {
			return nil, err
		}
		list = append(list, c)
	}
}

// address parses an address, if there is one.
func (s *sedScript) address() (*sedAddress, error) {
	switch {
	case s.rest == "":
		return nil, nil
	case s.rest[0] == '$':
		s.rest = s.rest[1:]
		return &sedAddress{last: true}, nil
	case s.rest[0] >= '0' && s.rest[0] <= '9':
		n := digits(s.rest)
		line, err := strconv.Atoi(s.rest[:n])
		s.rest = s.rest[n:]
		return &sedAddress{line: line}, err
	case s.rest[0] == '/' || s.rest[0] == '\\':
		if s.rest[0] == '\\' {
			s.rest = s.rest[1:]
		}
		text, err := s.delimited()
		if err != nil {
			return nil, err
		}
		fold := strings.HasPrefix(s.rest, "I")
		s.rest = strings.TrimPrefix(s.rest, "I")
		expr, err := s.expression(text, fold)
		return &sedAddress{expr: expr}, err
	}
	return nil, nil
}

func (s *sedScript) expression(text string, fold bool) (*regexp.Regexp, error) {
	if text == "" {
		if s.previous == nil {
			return nil, errors.New("no previous regular expression")
		}
		return s.previous, nil
	}
	expr, err := expression(text, s.extended, fold)
	s.previous = expr
	return expr, err
}

// delimited parses a text between the delimiter at the beginning and the next one, and leaves the delimiter.
func (s *sedScript) delimited() (string, error) {
	if s.rest == "" {
		return "", errors.New("unterminated expression")
	}
	delimiter := s.rest[0]
	var b strings.Builder
	inBracket := false
	for i := 1; i < len(s.rest); i++ {
		ch := s.rest[i]
		switch {
		case ch == '\\' && i+1 < len(s.rest):
			if i++; s.rest[i] == delimiter && delimiter != '\\' {
				b.WriteByte(delimiter)
			} else {
				b.WriteByte('\\')
				b.WriteByte(s.rest[i])
			}
			continue
		case ch == '[':
			inBracket = true
		case ch == ']':
			inBracket = false
		case ch == delimiter && !inBracket, ch == delimiter && delimiter != '/':
			s.rest = s.rest[i+1:]
			return b.String(), nil
		}
		b.WriteByte(ch)
	}
	return "", errors.New("unterminated expression")
}

// command parses a command with its addresses.
func (s *sedScript) command() (c *sedCommand, err error) {
	c = &sedCommand{}
	if c.from, err = s.address(); err != nil {
		return nil, err
	}
	if c.from != nil && strings.HasPrefix(s.rest, ",") {
		s.rest = s.rest[1:]
		if c.to, err = s.address(); err != nil {
			return nil, err
		}
		if c.to == nil {
			return nil, errors.New("unexpected ,")
		}
	}
	s.skip(" \t")
	if strings.HasPrefix(s.rest, "!") {
		c.not = true
		s.rest = s.rest[1:]
		s.skip(" \t")
	}
	if s.rest == "" {
		return nil, errors.New("missing command")
	}
	c.name, s.rest = s.rest[0], s.rest[1:]
	switch c.name {
	case 'd', 'p', 'q', 'n', '=':
	case '{':
		if s.depth++; s.depth > 100 {
			return nil, errors.New("too many blocks in each other")
		}
		c.block, err = s.commands(true)
		s.depth--
		return c, err
	case 'a', 'i', 'c':
		s.skip(" \t")
		s.rest = strings.TrimPrefix(s.rest, "\\")
		s.rest = strings.TrimPrefix(s.rest, "\n")
		c.text, s.rest, _ = strings.Cut(s.rest, "\n")
		return c, nil
	case 's':
		return c, s.substitution(c)
	case 'y':
		return c, s.transliteration(c)
	default:
		return nil, fmt.Errorf("the command %c is not supported", c.name)
	}
	s.skip(" \t")
	if s.rest != "" && strings.IndexByte(";\n}#", s.rest[0]) < 0 {
		return nil, errors.New("extra characters after a command")
	}
	return c, nil
}

// substitution parses the arguments of the command s.
func (s *sedScript) substitution(c *sedCommand) error {
	if s.rest == "" {
		return errors.New("unterminated s command")
	}
	delimiter := s.rest[:1]
	text, err := s.delimited()
	if err != nil {
		return errors.New("unterminated s command")
	}
	s.rest = delimiter + s.rest
	if c.with, err = s.delimited(); err != nil {
		return errors.New("unterminated s command")
	}
	fold := false
	for s.rest != "" && strings.IndexByte(";\n} \t", s.rest[0]) < 0 {
		switch f := s.rest[0]; {
		case f == 'g':
			c.global = true
		case f == 'p':
			c.print = true
		case f == 'i' || f == 'I':
			fold = true
		case f >= '1' && f <= '9':
			n := digits(s.rest)
			c.nth, _ = strconv.Atoi(s.rest[:n])
			s.rest = s.rest[n-1:]
		default:
			return fmt.Errorf("the flag %c of s is not supported", f)
		}
		s.rest = s.rest[1:]
	}
	c.expr, err = s.expression(text, fold)
	return err
}

func (s *sedScript) transliteration(c *sedCommand) error {
	if s.rest == "" {
		return errors.New("unterminated y command")
	}
	delimiter := s.rest[:1]
	from, err := s.delimited()
	if err == nil {
		s.rest = delimiter + s.rest
		var to string
		if to, err = s.delimited(); err == nil {
			from, _ = unescape(from, false)
			to, _ = unescape(to, false)
			a, b := []rune(from), []rune(to)
			if len(a) != len(b) {
				return errors.New("the texts of y have different lengths")
			}
			c.table = map[rune]rune{}
			for i := range a {
				c.table[a[i]] = b[i]
			}
		}
	}
	return err
}

// sedRun is a run of sed over the lines of its input.
type sedRun struct {
	c        *invocation
	out      io.Writer
	commands []*sedCommand
	quiet    bool
	lines    []string
	ended    bool // the last line has an end
	at       int  // the index of the line
	space    string
	appended []string
	quit     bool
}

// sed edits the lines of files.
func sed(c *invocation) int {
	o, ok := c.options("ne:rEf:szi expression=e file=f quiet=n silent=n regexp-extended=E in-place=i")
	if !ok {
		return 1
	}
	inPlace := o.has('i')
	scripts, files := o.all('e'), o.args
	for _, name := range o.all('f') {
		text, err := c.in.readScript(name)
		if err != nil {
			return c.fileError(name, err)
		}
		scripts = append(scripts, text)
	}
	if len(scripts) == 0 {
		if len(files) == 0 {
			return c.errorf("usage: sed [-nrEi] SCRIPT [FILE]...")
		}
		scripts, files = files[:1], files[1:]
	}
	s := &sedScript{rest: strings.Join(scripts, "\n"), extended: o.has('r') || o.has('E')}
	commands, err := s.commands(false)
	if err != nil {
		return c.errorf("%v", err)
	}
	if !inPlace {
		var all bytes.Buffer
		code := c.inputs(files, func(_ string, r io.Reader) error {
			b, err := c.readAll(r)
			all.Write(b)
			return err
		})
		run := &sedRun{c: c, out: c.out, commands: commands, quiet: o.has('n')}
		run.run(all.String())
		return code
	}
	code := 0
	for _, name := range files {
		code = max(code, c.inputs([]string{name}, func(_ string, r io.Reader) error {
			b, err := c.readAll(r)
			if err != nil {
				return err
			}
			var out bytes.Buffer
			run := &sedRun{c: c, out: &out, commands: commands, quiet: o.has('n')}
			run.run(string(b))
			w, closer, err := c.create(name, syscall.O_TRUNC)
			if err != nil {
				return err
			}
			defer closer()
			_, err = w.Write(out.Bytes())
			return err
		}))
	}
	return code
}

func (r *sedRun) run(text string) {
	r.ended = strings.HasSuffix(text, "\n")
	if text = strings.TrimSuffix(text, "\n"); text == "" && !r.ended {
		return
	}
	r.lines = strings.Split(text, "\n")
	for r.at = 0; r.at < len(r.lines) && !r.quit; r.at++ {
		r.c.in.step(1)
		r.space = r.lines[r.at]
		if !r.execute(r.commands) && !r.quiet {
			r.print(r.space)
		}
		for _, a := range r.appended {
			fmt.Fprintln(r.out, a)
		}
		r.appended = nil
	}
}

// print writes a line. The last line ends as it did.
func (r *sedRun) print(line string) {
	end := "\n"
	if r.at == len(r.lines)-1 && !r.ended {
		end = ""
	}
	fmt.Fprint(r.out, line+end)
}

func (r *sedRun) matches(a *sedAddress) bool {
	switch {
	case a.last:
		return r.at == len(r.lines)-1
	case a.expr != nil:
		return a.expr.MatchString(r.space)
	}
	return r.at+1 == a.line
}

func (r *sedRun) selected(c *sedCommand) bool {
	switch {
	case c.from == nil:
		return true
	case c.to == nil:
		return r.matches(c.from)
	case c.inRange:
		if c.to.line > 0 && r.at+1 >= c.to.line || c.to.line == 0 && r.matches(c.to) {
			c.inRange = false
			return c.to.line == 0 || r.at+1 == c.to.line
		}
		return true
	case r.matches(c.from):
		c.inRange = c.to.line == 0 || c.to.line > r.at+1
		return true
	}
	return false
}

// execute executes commands, and reports whether the line is deleted.
func (r *sedRun) execute(list []*sedCommand) (deleted bool) {
	for _, c := range list {
		r.c.in.step(1)
		if r.selected(c) == c.not {
			continue
		}
		switch c.name {
		case '{':
			if r.execute(c.block) {
				return true
			}
			if r.quit {
				return false
			}
		case 'd':
			return true
		case 'p':
			fmt.Fprintln(r.out, r.space)
		case '=':
			fmt.Fprintln(r.out, r.at+1)
		case 'q':
			r.quit = true
			return false
		case 'n':
			if r.at+1 >= len(r.lines) {
				r.quit = true
				return false
			}
			if !r.quiet {
				r.print(r.space)
			}
			r.at++
			r.space = r.lines[r.at]
		case 'a':
			r.appended = append(r.appended, c.text)
		case 'i':
			fmt.Fprintln(r.out, c.text)
		case 'c':
			if c.to == nil || !c.inRange {
				fmt.Fprintln(r.out, c.text)
			}
			return true
		case 'y':
			r.space = strings.Map(func(x rune) rune {
				if y, ok := c.table[x]; ok {
					return y
				}
				return x
			}, r.space)
		case 's':
			r.substitute(c)
		}
	}
	return false
}

func (r *sedRun) substitute(c *sedCommand) {
	n, replaced := 0, false
	var b strings.Builder
	last := 0
	for _, m := range c.expr.FindAllStringSubmatchIndex(r.space, -1) {
		if n++; n < c.nth || !c.global && replaced {
			continue
		}
		b.WriteString(r.space[last:m[0]])
		r.replacement(&b, c.with, m)
		last, replaced = m[1], true
		if b.Len() > r.c.in.limits.Memory {
			panic(&limitError{"sed: a line has more than " + strconv.Itoa(r.c.in.limits.Memory) + " bytes"})
		}
	}
	if !replaced {
		return
	}
	b.WriteString(r.space[last:])
	if r.space = b.String(); c.print {
		fmt.Fprintln(r.out, r.space)
	}
}

// replacement writes the replacement of a match, with & and \1 to \9.
func (r *sedRun) replacement(b *strings.Builder, with string, m []int) {
	for i := 0; i < len(with); i++ {
		switch {
		case with[i] == '&':
			b.WriteString(r.space[m[0]:m[1]])
		case with[i] == '\\' && i+1 < len(with):
			i++
			switch ch := with[i]; {
			case ch >= '0' && ch <= '9':
				if g := 2 * int(ch-'0'); g+1 < len(m) && m[g] >= 0 {
					b.WriteString(r.space[m[g]:m[g+1]])
				}
			case ch == 'n':
				b.WriteByte('\n')
			case ch == 't':
				b.WriteByte('\t')
			default:
				b.WriteByte(ch)
			}
		default:
			b.WriteByte(with[i])
		}
	}
}
