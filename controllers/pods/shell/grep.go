package shell

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// grepping is the search of grep.
type grepping struct {
	c             *invocation
	o             *arguments
	expressions   []*regexp.Regexp
	names, found  bool
	most          int // lines that match, or -1
	before, after int // lines around a match
}

// grep prints the lines that match a pattern. The exit code is 1 if there is none, and 2 after an error.
func grep(c *invocation) int {
	o, ok := c.options("ivEFGPqcnlLoHhswxrRe:m:A:B:C:f: extended-regexp=E fixed-strings=F ignore-case=i invert-match=v quiet=q silent=q count=c line-number=n files-with-matches=l only-matching=o word-regexp=w line-regexp=x recursive=r regexp=e max-count=m after-context=A before-context=B context=C no-filename=h color=s")
	if !ok {
		return 2
	}
	g := &grepping{c: c, o: o, most: -1}
	args, err := g.parse()
	if err != nil {
		c.errorf("%v", err)
		return 2
	}
	if o.has('r') || o.has('R') {
		if len(args) == 0 {
			args = []string{"."}
		}
		args = c.filesBelow(args)
		g.names = true
	}
	g.names = (g.names || len(args) > 1 || o.has('H')) && !o.has('h')
	code := c.inputs(args, g.search)
	switch {
	case g.found && (code == 0 || o.has('q')):
		return 0
	case code != 0:
		return 2
	}
	return 1
}

// parse sets the expressions and the numbers of lines, and returns the names of the files.
func (g *grepping) parse() (files []string, err error) {
	patterns, files, err := g.patterns()
	if err != nil {
		return nil, err
	}
	for _, p := range patterns {
		r, err := g.compile(p)
		if err != nil {
			return nil, err
		}
		g.expressions = append(g.expressions, r)
	}
	for _, flag := range []byte("mCBA") {
		if !g.o.has(flag) {
			continue
		}
		n, err := strconv.Atoi(g.o.get(flag))
		if err != nil || n < 0 {
			return nil, fmt.Errorf("invalid number '%s'", g.o.get(flag))
		}
		switch flag {
		case 'm':
			g.most = n
		case 'C':
			g.after, g.before = n, n
		case 'B':
			g.before = n
		case 'A':
			g.after = n
		}
	}
	return files, nil
}

// patterns returns the patterns of the options and of the first argument, and the other arguments.
func (g *grepping) patterns() (patterns, args []string, err error) {
	for _, p := range g.o.all('e') {
		patterns = append(patterns, strings.Split(p, "\n")...)
	}
	for _, name := range g.o.all('f') {
		r, closer, err := g.c.open(name)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %s", name, errText(err))
		}
		b, err := g.c.readAll(r)
		closer()
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %s", name, errText(err))
		}
		if len(b) > 0 {
			patterns = append(patterns, strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")...)
		}
	}
	args = g.o.args
	if g.o.has('e') || g.o.has('f') {
		return patterns, args, nil
	}
	if len(args) == 0 {
		return nil, nil, errors.New("usage: grep [OPTIONS] PATTERN [FILES]")
	}
	return strings.Split(args[0], "\n"), args[1:], nil
}

// compile compiles a pattern.
func (g *grepping) compile(pattern string) (*regexp.Regexp, error) {
	if g.o.has('F') || g.c.args[0] == "fgrep" {
		pattern = regexp.QuoteMeta(pattern)
	} else {
		r, err := expression(pattern, g.o.has('E') || g.o.has('P') || g.c.args[0] == "egrep", false)
		if err != nil {
			return nil, err
		}
		pattern = r.String()
	}
	if g.o.has('w') {
		pattern = `\b(?:` + pattern + `)\b`
	}
	if g.o.has('x') {
		pattern = `^(?:` + pattern + `)$`
	}
	if g.o.has('i') {
		pattern = "(?i)" + pattern
	}
	return regexp.Compile(pattern)
}

// search searches a file.
func (g *grepping) search(name string, r io.Reader) error {
	if name == "-" {
		name = "(standard input)"
	}
	f := &grepFile{grepping: g, name: name}
	if err := g.c.lines(r, '\n', f.line); err != nil && !errors.Is(err, errDone) {
		return err
	}
	switch {
	case g.o.has('q'):
	case g.o.has('l') && f.matched > 0, g.o.has('L') && f.matched == 0:
		g.c.printf("%s\n", name)
	case g.o.has('l'), g.o.has('L'):
	case g.o.has('c'):
		if g.names {
			g.c.printf("%s:", name)
		}
		g.c.printf("%d\n", f.matched)
	}
	return nil
}

// grepFile is the search of a file.
type grepFile struct {
	*grepping
	name            string
	number, matched int      // lines
	shown           int      // the number of the last printed line
	remaining       int      // lines that are printed, because they follow a match
	earlier         []string // the last lines that were not printed
}

// line prints a line if it matches or is near to one that does. It returns errDone after the last line of interest.
func (f *grepFile) line(line []byte, _ bool) error {
	f.number++
	if f.most == 0 || f.matched == f.most && f.remaining == 0 {
		return errDone
	}
	matches := func(r *regexp.Regexp) bool { return r.Match(line) }
	if f.matched == f.most || slices.ContainsFunc(f.expressions, matches) == f.o.has('v') {
		f.context(line)
		return f.c.out.err
	}
	f.matched++
	f.found = true
	switch {
	case f.o.has('q'):
		return errStop
	case f.o.has('l'), f.o.has('L'):
		return errDone
	case f.o.has('c'):
	case f.o.has('o'):
		f.parts(line)
	default:
		f.match(line)
	}
	return f.c.out.err
}

// context prints or keeps a line without a match.
func (f *grepFile) context(line []byte) {
	switch {
	case f.o.has('c'), f.o.has('o'), f.o.has('q'), f.o.has('l'), f.o.has('L'):
	case f.remaining > 0:
		f.remaining--
		f.print("-", f.number, string(line))
	case f.before > 0:
		if f.earlier = append(f.earlier, string(line)); len(f.earlier) > f.before {
			f.earlier = f.earlier[1:]
		}
	}
}

// match prints a line that matches, after the lines before it.
func (f *grepFile) match(line []byte) {
	first := f.number - len(f.earlier)
	if (f.before > 0 || f.after > 0) && f.shown > 0 && first > f.shown+1 {
		f.c.printf("--\n")
	}
	for i, l := range f.earlier {
		f.print("-", first+i, l)
	}
	f.earlier, f.remaining = nil, f.after
	f.print(":", f.number, string(line))
}

// parts prints the parts of a line that match.
func (f *grepFile) parts(line []byte) {
	if f.o.has('v') {
		return
	}
	for _, r := range f.expressions {
		for _, m := range r.FindAll(line, -1) {
			if len(m) > 0 {
				f.print(":", f.number, string(m))
			}
		}
	}
}

// print prints a line, after the name of the file and the number of the line if these are wanted.
func (f *grepFile) print(separator string, number int, line string) {
	if f.names {
		f.c.printf("%s%s", f.name, separator)
	}
	if f.o.has('n') {
		f.c.printf("%d%s", number, separator)
	}
	f.c.printf("%s\n", line)
	f.shown = number
}

// filesBelow returns the files in folders.
func (c *invocation) filesBelow(names []string) (files []string) {
	for _, name := range names {
		c.walk(name, func(name string, info fs.FileInfo) bool {
			if info.Mode().IsRegular() {
				files = append(files, name)
			}
			return true
		})
	}
	return files
}
