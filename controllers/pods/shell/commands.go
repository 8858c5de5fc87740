package shell

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

// command executes a command and sets the status.
func (in *interpreter) command(c syntax.Command) {
	switch c := c.(type) {
	case nil:
		in.status = 0
	case *syntax.CallExpr:
		in.call(c)
	case *syntax.Block:
		in.statements(c.Stmts)
	case *syntax.Subshell:
		in.status = in.subshell(in.process, in.ctx, func(*interpreter) {}, c.Stmts)
	case *syntax.BinaryCmd:
		in.binary(c)
	case *syntax.IfClause:
		in.ifClause(c)
	case *syntax.WhileClause:
		in.while(c)
	case *syntax.ForClause:
		in.forClause(c)
	case *syntax.CaseClause:
		in.caseClause(c)
	case *syntax.FuncDecl:
		if c.Name == nil {
			in.fail("functions without a name are not supported")
			return
		}
		if old := in.functions[c.Name.Value]; old != nil {
			in.grow(-int(old.End().Offset() - old.Pos().Offset()))
		}
		in.grow(int(c.Body.End().Offset() - c.Body.Pos().Offset()))
		in.functions[c.Name.Value] = c.Body
		in.status = 0
	case *syntax.ArithmCmd:
		n, ok := in.arithmetic(c.X)
		in.status = oneIf(!ok || n == 0)
	case *syntax.LetClause:
		for _, x := range c.Exprs {
			n, ok := in.arithmetic(x)
			in.status = oneIf(!ok || n == 0)
		}
	case *syntax.TestClause:
		in.status = 0
		is := in.testClause(c.X)
		if in.status == 0 {
			in.status = oneIf(!is)
		}
	case *syntax.DeclClause:
		in.declare(c)
	case *syntax.TimeClause:
		start := time.Now()
		if c.Stmt != nil {
			in.statement(c.Stmt)
		}
		d := time.Since(start)
		fmt.Fprintf(in.stderr(), "real\t%dm%.3fs\nuser\t0m0.000s\nsys\t0m0.000s\n", int(d.Minutes()), d.Seconds()-60*float64(int(d.Minutes())))
	default:
		in.fail("%T is not supported", c)
	}
}

// tested executes statements, and the shell tests their status.
func (in *interpreter) tested(list []*syntax.Stmt) bool {
	in.quiet++
	in.statements(list)
	in.quiet--
	return in.status == 0
}

// binary executes a list or a pipeline.
func (in *interpreter) binary(c *syntax.BinaryCmd) {
	switch c.Op {
	case syntax.AndStmt, syntax.OrStmt:
		ok := in.tested([]*syntax.Stmt{c.X})
		if in.flow == running && ok == (c.Op == syntax.AndStmt) {
			in.statement(c.Y)
		}
	default:
		in.pipeline(c)
	}
}

// stages returns the stages of a pipeline, and for each whether its standard error is piped too.
func stages(c *syntax.BinaryCmd) (list []*syntax.Stmt, all []bool) {
	if x, ok := c.X.Cmd.(*syntax.BinaryCmd); ok && (x.Op == syntax.Pipe || x.Op == syntax.PipeAll) && len(c.X.Redirs) == 0 && !c.X.Negated {
		list, all = stages(x)
		all[len(all)-1] = c.Op == syntax.PipeAll
	} else {
		list, all = []*syntax.Stmt{c.X}, []bool{c.Op == syntax.PipeAll}
	}
	return append(list, c.Y), append(all, false)
}

// pipeline executes the stages of a pipeline at once. The last stage is a subshell of this process, and the pipeline ends
// with all of them.
func (in *interpreter) pipeline(c *syntax.BinaryCmd) {
	list, all := stages(c)
	var children []*process
	var from *description
	last := len(list) - 1
	for i, s := range list[:last] {
		reader, writer := newPipe()
		previous := from
		child, err := in.process.fork(in.ctx, []string{in.name}, in.child(func(sub *interpreter) {
			if previous != nil {
				sub.files.set(0, previous)
			}
			sub.files.set(1, writer)
			if all[i] {
				sub.files.set(2, writer.use())
			}
		}, []*syntax.Stmt{s}))
		if from = reader; err != nil {
			writer.release()
			reader.release()
			for _, c := range children {
				in.await(c)
			}
			in.fail("%v", err)
			in.status = 2
			return
		}
		children = append(children, child)
	}
	in.status = in.subshell(in.process, in.ctx, func(sub *interpreter) { sub.files.set(0, from) }, list[last:])
	codes := make([]string, 0, len(list))
	for i := range children {
		code := in.await(children[i])
		codes = append(codes, strconv.Itoa(code))
	}
	codes = append(codes, strconv.Itoa(in.status))
	if in.options.pipeFail {
		for _, code := range slices.Backward(codes) {
			if n, _ := strconv.Atoi(code); n != 0 {
				in.status = n
				break
			}
		}
	}
	_ = in.assign("PIPESTATUS", expand.Variable{Set: true, Kind: expand.Indexed, List: codes})
}

func (in *interpreter) ifClause(c *syntax.IfClause) {
	for ; c != nil; c = c.Else {
		if len(c.Cond) == 0 || in.tested(c.Cond) && in.flow == running {
			in.statements(c.Then)
			return
		}
		if in.flow != running {
			return
		}
	}
	in.status = 0
}

// body executes the body of a loop, and reports whether the loop goes on.
func (in *interpreter) body(list []*syntax.Stmt) bool {
	in.loops++
	in.statements(list)
	in.loops--
	return in.goesOn()
}

// goesOn takes the flow of a loop's body or condition, and reports whether the loop goes on.
func (in *interpreter) goesOn() bool {
	if in.flow != breaking && in.flow != continuing {
		return in.flow == running
	}
	if in.levels--; in.levels > 0 && in.loops > 0 {
		return false
	}
	goes := in.flow == continuing
	in.flow = running
	return goes
}

func (in *interpreter) while(c *syntax.WhileClause) {
	status := 0
	for {
		in.step(1)
		in.loops++
		is := in.tested(c.Cond)
		in.loops--
		if in.flow != running {
			if !in.goesOn() {
				status = in.status
				break
			}
			continue
		}
		if is == c.Until {
			break
		}
		goes := in.body(c.Do)
		if status = in.status; !goes {
			break
		}
	}
	in.status = status
}

// forClause executes a loop over words, or with three expressions.
func (in *interpreter) forClause(c *syntax.ForClause) {
	switch loop := c.Loop.(type) {
	case *syntax.WordIter:
		items := in.params
		if loop.InPos.IsValid() {
			var ok bool
			if items, ok = in.fields(loop.Items); !ok {
				return
			}
		}
		if c.Select {
			in.fail("select is not supported")
			return
		}
		in.status = 0
		for _, item := range items {
			in.step(1)
			if in.setText(loop.Name.Value, item); !in.body(c.Do) {
				break
			}
		}
	case *syntax.CStyleLoop:
		in.status = 0
		evaluate := func(x syntax.ArithmExpr) (int, bool) {
			if x == nil {
				return 1, true
			}
			return in.arithmetic(x)
		}
		if _, ok := evaluate(loop.Init); !ok {
			return
		}
		for {
			in.step(1)
			if n, ok := evaluate(loop.Cond); !ok || n == 0 || !in.body(c.Do) {
				return
			}
			if _, ok := evaluate(loop.Post); !ok {
				return
			}
		}
	}
}

func (in *interpreter) caseClause(c *syntax.CaseClause) {
	text, ok := in.literal(c.Word)
	if !ok {
		return
	}
	in.status = 0
	through := false
	for _, item := range c.Items {
		if !through && !slices.ContainsFunc(item.Patterns, func(w *syntax.Word) bool {
			p, ok := in.pattern(w)
			return ok && in.match(p, text)
		}) {
			continue
		}
		in.statements(item.Stmts)
		through = item.Op == syntax.Fallthrough
		if in.flow != running || item.Op == syntax.Break {
			return
		}
	}
}

// redirected executes a statement with redirections.
func (in *interpreter) redirected(s *syntax.Stmt) {
	before := in.files
	in.files = before.clone()
	restore := func() {
		if in.keepFiles {
			in.keepFiles = false
			before.closeAll()
			return
		}
		in.files.closeAll()
		in.files = before
	}
	defer restore()
	for _, r := range s.Redirs {
		if !in.redirect(r) {
			in.status = 1
			return
		}
	}
	in.command(s.Cmd)
}

// redirect executes a redirection, and reports whether that was possible.
func (in *interpreter) redirect(r *syntax.Redirect) bool {
	n := 1
	switch r.Op {
	case syntax.RdrIn, syntax.RdrInOut, syntax.DplIn, syntax.Hdoc, syntax.DashHdoc, syntax.WordHdoc:
		n = 0
	}
	if r.N != nil {
		number, err := strconv.Atoi(r.N.Value)
		if err != nil || number > 1000 {
			in.fail("%s: bad file descriptor", r.N.Value)
			return false
		}
		n = number
	}
	if r.Op == syntax.Hdoc || r.Op == syntax.DashHdoc {
		text, ok := in.hereDocument(r)
		in.files.set(n, describe(&textStream{rest: text}))
		return ok
	}
	word, ok := in.literal(r.Word)
	if !ok {
		return false
	}
	flag := syscall.O_WRONLY | syscall.O_CREAT | syscall.O_TRUNC
	switch r.Op {
	case syntax.WordHdoc:
		in.files.set(n, describe(&textStream{rest: word + "\n"}))
		return true
	case syntax.DplIn, syntax.DplOut:
		return in.duplicate(n, word, r.Op == syntax.DplOut && r.N == nil)
	case syntax.RdrIn:
		flag = syscall.O_RDONLY
	case syntax.RdrInOut:
		flag = syscall.O_RDWR | syscall.O_CREAT
	case syntax.AppOut, syntax.AppAll:
		flag = syscall.O_WRONLY | syscall.O_CREAT | syscall.O_APPEND
	case syntax.RdrOut:
		if info, err := in.fs.Stat(in.pathOf(word)); in.options.noClobber && err == nil && info.Mode().IsRegular() {
			in.fail("can't create %s: file exists", word)
			return false
		}
	}
	d, err := in.openIn(word, flag, 0o644)
	if err != nil {
		what := "create"
		if flag == syscall.O_RDONLY {
			what = "open"
		}
		in.fail("can't %s %s: %s", what, word, errText(err))
		return false
	}
	in.files.set(n, d)
	if r.Op == syntax.RdrAll || r.Op == syntax.AppAll {
		in.files.set(2, d.use())
	}
	return true
}

// duplicate executes N>&M, N>&- and >&FILE.
func (in *interpreter) duplicate(n int, word string, both bool) bool {
	if word == "-" {
		in.files.set(n, nil)
		return true
	}
	m, err := strconv.Atoi(word)
	if err != nil && both {
		d, err := in.openIn(word, syscall.O_WRONLY|syscall.O_CREAT|syscall.O_TRUNC, 0o644)
		if err != nil {
			in.fail("can't create %s: %s", word, errText(err))
			return false
		}
		in.files.set(1, d)
		in.files.set(2, d.use())
		return true
	}
	d := in.files[m]
	if err != nil || d == nil {
		in.fail("%s: bad file descriptor", word)
		return false
	}
	if m != n {
		in.files.set(n, d.use())
	}
	return true
}

// hereDocument returns the text of a here-document.
func (in *interpreter) hereDocument(r *syntax.Redirect) (string, bool) {
	if r.Hdoc == nil {
		return "", true
	}
	quoted := slices.ContainsFunc(r.Word.Parts, func(p syntax.WordPart) bool {
		lit, ok := p.(*syntax.Lit)
		return !ok || strings.Contains(lit.Value, `\`)
	})
	word := r.Hdoc
	if r.Op == syntax.DashHdoc {
		word = &syntax.Word{}
		begins := true // a line
		for _, p := range r.Hdoc.Parts {
			if lit, ok := p.(*syntax.Lit); ok {
				lines := strings.Split(lit.Value, "\n")
				for i := range lines {
					if i > 0 || begins {
						lines[i] = strings.TrimLeft(lines[i], "\t")
					}
				}
				text := *lit
				text.Value = strings.Join(lines, "\n")
				p = &text
			}
			begins = false
			word.Parts = append(word.Parts, p)
		}
	}
	if quoted {
		return word.Lit(), true
	}
	return in.document(word)
}

// call executes a simple command.
func (in *interpreter) call(c *syntax.CallExpr) {
	in.wasSubstituted, in.substituted = false, 0
	args, ok := in.fields(c.Args)
	if !ok {
		return
	}
	if len(args) == 0 {
		for _, a := range c.Assigns { // their words may have $?
			if name, v, ok := in.value(a); ok {
				if err := in.assign(name, v); err != nil {
					in.fail("%v", err)
					return
				}
				in.trace(name + "=" + v.String())
			} else {
				in.status = 1
				return
			}
		}
		if in.status = 0; in.wasSubstituted {
			in.status = in.substituted
		}
		return
	}
	type saved struct {
		name string
		v    expand.Variable
	}
	var before []saved
	restore := func() {
		for _, s := range slices.Backward(before) {
			s.v.Local = false
			_ = in.assign(s.name, s.v)
		}
	}
	for _, a := range c.Assigns {
		name, v, ok := in.value(a)
		if !ok {
			restore()
			in.status = 1
			return
		}
		before = append(before, saved{name, in.scope.find(name).variables[name]})
		v.Exported = true
		if err := in.assign(name, v); err != nil {
			before = before[:len(before)-1]
			restore()
			in.fail("%v", err)
			return
		}
	}
	in.trace(strings.Join(args, " "))
	in.status = in.invoke(args)
	restore()
}

// trace writes a command if the option -x is set.
func (in *interpreter) trace(text string) {
	if in.options.trace {
		fmt.Fprintf(in.stderr(), "+ %s\n", text)
	}
}

// invoke calls a function, a builtin or a program.
func (in *interpreter) invoke(args []string) int {
	if f := in.functions[args[0]]; f != nil {
		return in.callFunction(f, args)
	}
	if b := builtins[args[0]]; b != nil {
		switch args[0] {
		case "exit", "return", "eval": // they go on with the status of the command before
		default:
			in.status = 0
		}
		return b(in, args)
	}
	return in.program(args, false)
}

// callFunction calls a function.
func (in *interpreter) callFunction(body *syntax.Stmt, args []string) int {
	in.nest()
	params, scopeBefore, loops := in.params, in.scope, in.loops
	in.params, in.scope, in.loops = args[1:], &scope{variables: map[string]expand.Variable{}, parent: in.scope}, 0
	in.depth++
	in.calls++
	in.statement(body)
	in.calls--
	in.depth--
	for name, v := range in.scope.variables {
		in.size -= sizeOf(name, v)
	}
	in.params, in.scope, in.loops = params, scopeBefore, loops
	if in.flow == returning {
		in.flow = running
	}
	return in.status
}

// value evaluates an assignment.
func (in *interpreter) value(a *syntax.Assign) (name string, v expand.Variable, ok bool) {
	name = a.Name.Value
	v = in.scope.find(name).variables[name]
	if v.Kind == expand.NameRef && v.Str != "" {
		name = v.Str
		v = in.scope.find(name).variables[name]
	}
	v.Local = false
	if a.Array != nil {
		return in.arrayValue(name, v, a)
	}
	text, ok := in.literal(a.Value)
	if !ok {
		return name, v, false
	}
	if a.Index == nil && v.Kind != expand.Indexed && v.Kind != expand.Associative {
		if a.Append {
			text = v.Str + text
		}
		v.Set, v.Kind, v.Str = true, expand.String, text
		return name, v, true
	}
	return in.setElement(name, v, a.Index, text, a.Append)
}
