package shell

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"regexp"
	"strings"
	"syscall"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/pattern"
	"mvdan.cc/sh/v3/syntax"
)

// maxCost bounds the product of the size of a text and the size of the pattern or replacement that is applied to it.
const maxCost = 1 << 26

// maxMatches bounds the directory entries that one expansion looks at.
const maxMatches = 100_000

// expansion is the work of one expansion of words.
type expansion struct {
	in       *interpreter
	limit    int
	bytes    int
	entries  int
	exponent int // of the work in the bytes
	factor   int
}

// read counts bytes that words read from variables and commands. The expansion of one word may cost a power of them,
// since a replacement can be as long as the text, and have replacements itself.
func (e *expansion) read(n int) {
	e.bytes += n
	if e.bytes > e.limit {
		panic(&limitError{fmt.Sprintf("an expansion has more than %d bytes", e.limit)})
	}
	e.in.step(n >> 10)
	if e.exponent > 0 && e.bytes > 1024 {
		cost := math.Pow(float64(e.bytes), float64(e.exponent)) * float64(e.factor)
		if cost > maxCost {
			panic(&limitError{"an expansion with a pattern is too large"})
		}
		e.in.step(int(cost) >> 12)
	}
}

// analyse sets the cost of an expansion by the patterns and replacements in a word.
func (e *expansion) analyse(word syntax.Node) {
	depth, deepest := 0, 0
	var stack []bool
	syntax.Walk(word, func(n syntax.Node) bool {
		if n == nil {
			if stack[len(stack)-1] {
				depth--
			}
			stack = stack[:len(stack)-1]
			return true
		}
		dynamic := false
		switch n := n.(type) {
		case *syntax.CmdSubst, *syntax.ProcSubst:
			return false // a shell of its own
		case *syntax.ParamExp:
			words := []*syntax.Word{}
			if n.Repl != nil {
				words = append(words, n.Repl.Orig, n.Repl.With)
			} else if n.Exp != nil && n.Exp.Op >= syntax.RemSmallSuffix && n.Exp.Op <= syntax.LowerAll {
				words = append(words, n.Exp.Word)
			}
			size := 0
			for _, w := range words {
				e.exponent = max(e.exponent, 1)
				if w != nil {
					size += int(w.End().Offset()) - int(w.Pos().Offset())
					dynamic = dynamic || !constant(w)
				}
			}
			e.factor = max(e.factor, size)
		}
		if dynamic {
			depth++
			deepest = max(deepest, depth)
		}
		stack = append(stack, dynamic)
		return true
	})
	e.exponent = max(e.exponent, deepest+1)
	if deepest == 0 && e.exponent == 1 && e.factor <= 1 {
		e.exponent = 0
	}
}

// constant reports whether a word has no expansions.
func constant(w *syntax.Word) bool {
	is := true
	syntax.Walk(w, func(n syntax.Node) bool {
		switch n.(type) {
		case *syntax.ParamExp, *syntax.CmdSubst, *syntax.ArithmExp, *syntax.ProcSubst:
			is = false
		}
		return is
	})
	return is
}

// config returns the configuration of the next expansion of words.
func (in *interpreter) config(nodes ...syntax.Node) *expand.Config {
	in.step(1)
	e := &expansion{in: in, limit: 2 * in.limits.Memory, factor: 1}
	for _, n := range nodes {
		e.analyse(n)
	}
	in.expansion = e
	c := &expand.Config{
		Env: environment{in}, CmdSubst: in.commandSubstitution, ProcSubst: in.processSubstitution,
		NoUnset: in.options.unset, DotGlob: in.options.dotGlob, ExtGlob: in.options.extGlob, GlobStar: in.options.globStar,
		NoCaseGlob: in.options.noCaseGlob, NullGlob: in.options.nullGlob,
	}
	if !in.options.noGlob {
		c.ReadDir2 = func(name string) ([]fs.DirEntry, error) {
			entries, err := in.fs.ReadDir(absolute(in.dir, name))
			in.step(1 + len(entries))
			if e.entries += 1 + len(entries); e.entries > maxMatches {
				panic(&limitError{fmt.Sprintf("a pattern looks at more than %d files", maxMatches)})
			}
			return entries, err
		}
	}
	return c
}

// nested evaluates an expansion, and restores the counters of the expansion around it.
func nested[T any](in *interpreter, nodes []syntax.Node, f func(*expand.Config) (T, error)) (result T, ok bool) {
	before := in.expansion
	defer func() { in.expansion = before }()
	result, err := f(in.config(nodes...))
	return result, in.expanded(err)
}

// expanded reports whether an expansion has no error, and otherwise fails the command.
func (in *interpreter) expanded(err error) bool {
	if err == nil {
		return true
	}
	in.fail("%s", strings.TrimPrefix(err.Error(), "sh: "))
	if _, ok := errors.AsType[expand.UnsetParameterError](err); ok && !in.interactive {
		in.flow = exiting
	}
	return false
}

func nodes[N syntax.Node](list []N) (all []syntax.Node) {
	for _, n := range list {
		all = append(all, n)
	}
	return all
}

// fields expands words to fields.
func (in *interpreter) fields(words []*syntax.Word) ([]string, bool) {
	list, ok := nested(in, nodes(words), func(c *expand.Config) ([]string, error) { return expand.Fields(c, words...) })
	in.step(len(list) >> 3)
	return list, ok
}

// literal expands a word to one text.
func (in *interpreter) literal(w *syntax.Word) (string, bool) {
	if w == nil {
		return "", true
	}
	return nested(in, []syntax.Node{w}, func(c *expand.Config) (string, error) { return expand.Literal(c, w) })
}

// document expands the text of a here-document.
func (in *interpreter) document(w *syntax.Word) (string, bool) {
	if w == nil {
		return "", true
	}
	return nested(in, []syntax.Node{w}, func(c *expand.Config) (string, error) { return expand.Document(c, w) })
}

// pattern expands a word to a pattern.
func (in *interpreter) pattern(w *syntax.Word) (string, bool) {
	return nested(in, []syntax.Node{w}, func(c *expand.Config) (string, error) { return expand.Pattern(c, w) })
}

// arithmetic evaluates an expression.
func (in *interpreter) arithmetic(x syntax.ArithmExpr) (int, bool) {
	return nested(in, []syntax.Node{x}, func(c *expand.Config) (n int, err error) { return expand.Arithm(c, x) })
}

// match reports whether a text matches a pattern as a whole.
func (in *interpreter) match(pat, text string) bool {
	if len(pat) > 0 && len(text) > maxCost/len(pat) {
		panic(&limitError{"a text and its pattern are too long"})
	}
	in.step((len(pat)*len(text) + len(pat)) >> 12)
	if inner, ok := strings.CutPrefix(pat, "!("); ok && strings.HasSuffix(inner, ")") && strings.Count(inner, "(") == 0 {
		return !in.match("@("+inner, text)
	}
	expr, err := pattern.Regexp(pat, pattern.EntireString|pattern.ExtendedOperators)
	if err != nil {
		if _, ok := errors.AsType[*pattern.SyntaxError](err); !ok {
			in.fail("%v", err)
		}
		return pat == text
	}
	r, err := regexp.Compile(expr)
	return err == nil && r.MatchString(text)
}

// commandSubstitution writes the output of commands. $(<FILE) is the content of a file.
func (in *interpreter) commandSubstitution(w io.Writer, cs *syntax.CmdSubst) error {
	before := in.expansion
	defer func() { in.expansion = before }()
	if cs.TempFile || cs.ReplyVar {
		return errors.New("${ is not supported")
	}
	out := &capture{limit: in.limits.Memory}
	d := describe(out)
	defer d.release()
	if len(cs.Stmts) == 1 && isRead(cs.Stmts[0]) {
		if err := in.readInto(d, cs.Stmts[0].Redirs[0].Word); err != nil {
			return err
		}
	} else {
		in.substituted = in.subshell(in.process, in.ctx, func(sub *interpreter) { sub.files.set(1, d.use()) }, cs.Stmts)
		in.wasSubstituted = true
	}
	if before != nil {
		before.read(out.text.Len())
	}
	_, err := io.WriteString(w, out.text.String())
	return err
}

// isRead reports whether a statement is <FILE without a command.
func isRead(s *syntax.Stmt) bool {
	return s.Cmd == nil && !s.Negated && !s.Background && len(s.Redirs) == 1 && s.Redirs[0].Op == syntax.RdrIn && s.Redirs[0].N == nil
}

// readInto copies a file.
func (in *interpreter) readInto(to *description, word *syntax.Word) error {
	name, ok := in.literal(word)
	if !ok {
		return errors.New("no file")
	}
	from, err := in.openIn(name, syscall.O_RDONLY, 0)
	if err != nil {
		return fmt.Errorf("can't open %s: %s", name, errText(err))
	}
	defer from.release()
	_, err = io.Copy(in.writer(to), in.reader(from))
	return err
}

// processSubstitution starts commands that write to a pipe, or read from it, and returns the name of its other end. The
// ends are closed when the statement around it has ended.
func (in *interpreter) processSubstitution(ps *syntax.ProcSubst) (string, error) {
	reader, writer := newPipe()
	ours, theirs, n := reader, writer, 1
	if ps.Op == syntax.CmdOut {
		ours, theirs, n = writer, reader, 0
	} else if ps.Op != syntax.CmdIn {
		return "", errors.New("=( is not supported")
	}
	child, err := in.process.fork(in.ctx, []string{in.name}, in.child(func(sub *interpreter) { sub.files.set(n, theirs) }, ps.Stmts))
	if err != nil {
		ours.release()
		theirs.release()
		return "", err
	}
	number := 63
	for in.files[number] != nil {
		number--
	}
	in.files[number] = ours
	in.substitutions = append(in.substitutions, substitution{number, child, ps.Op == syntax.CmdOut})
	return fmt.Sprintf("/dev/fd/%d", number), nil
}

// substitution is a process substitution of a statement.
type substitution struct {
	number int
	child  *process
	waits  bool // for what the child does with the written bytes
}

// endSubstitutions closes the pipes of the process substitutions that were made since a statement began.
func (in *interpreter) endSubstitutions(from int) {
	for _, s := range in.substitutions[from:] {
		in.files.set(s.number, nil)
		if s.waits {
			in.await(s.child)
		}
	}
	in.substitutions = in.substitutions[:from]
}
