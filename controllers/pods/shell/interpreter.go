package shell

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"

	"flyball.dev/controllers/pods/runtime"
)

// flow says how a shell goes on after a command.
type flow int

const (
	running flow = iota
	breaking
	continuing
	returning
	exiting
)

// interpreter is a shell: the state of a script, or of a subshell. It is used by one goroutine.
type interpreter struct {
	process *process
	ctx     context.Context // of the process, or of a command of it
	fs      runtime.FS
	limits  Limits
	id      int // the number of the process that $$ is

	files     descriptors
	keepFiles bool // the redirections of the statement are for the shell: exec
	scope     *scope
	size      int // of the variables and functions
	functions map[string]*syntax.Stmt
	name      string // $0
	params    []string
	dir       string
	options   options
	status    int // $?
	flow      flow
	levels    int // loops to leave
	loops     int // around the command
	calls     int // of functions and sourced scripts around the command
	depth     int
	quiet     int // > 0: the status of the command is tested, so -e does not apply
	traps     map[string]string
	trapping  bool

	background  []*process
	lastID      int // $!
	interactive bool
	random      *rand.Rand
	started     time.Time
	nextOption  int // the position in the argument of getopts

	expansion      *expansion
	substituted    int // the status of the last command substitution
	wasSubstituted bool
	substitutions  []substitution
}

// newInterpreter returns the shell of a root process.
func newInterpreter(p *process, spec *runtime.Process, files descriptors) *interpreter {
	in := &interpreter{process: p, ctx: p.ctx, fs: spec.FS, limits: p.machine.shell.limits, id: p.id, files: files, name: "sh", dir: "/"}
	if strings.HasPrefix(spec.Dir, "/") {
		in.dir = absolute("/", spec.Dir)
	}
	return in
}

// begin sets the variables of a new shell.
func (in *interpreter) begin(env []string) {
	in.scope, in.size, in.started = &scope{variables: map[string]expand.Variable{}}, 0, time.Now()
	in.functions, in.traps = map[string]*syntax.Stmt{}, map[string]string{}
	set := func(name, value string, exported bool) {
		v := expand.Variable{Set: true, Exported: exported, Kind: expand.String, Str: value}
		in.grow(sizeOf(name, v) - sizeOf(name, in.scope.variables[name]))
		in.scope.variables[name] = v
	}
	set("PATH", defaultPath, true)
	set("HOME", in.homeOfUser(), true)
	set("HOSTNAME", hostname(in.process.root.spec.Pod), true)
	for _, e := range env {
		if name, value, ok := strings.Cut(e, "="); ok && name != "" {
			set(name, value, true)
		}
	}
	set("PWD", in.dir, true)
	set("IFS", " \t\n", false)
	set("OPTIND", "1", false)
}

// homeOfUser returns the home directory of the user of the process.
func (in *interpreter) homeOfUser() string {
	if in.process.root.identity.user == 0 {
		return "/root"
	}
	return "/"
}

// fork returns a copy of a shell, for a process or a subshell.
func (in *interpreter) fork(p *process, ctx context.Context) *interpreter {
	in.step(len(in.scope.variables) >> 5)
	sub := *in
	sub.process, sub.ctx = p, ctx
	sub.files, sub.scope, sub.functions = in.files.clone(), in.scope.clone(), maps.Clone(in.functions)
	sub.traps = map[string]string{}
	sub.background, sub.substitutions, sub.keepFiles, sub.interactive = nil, nil, false, false
	sub.flow, sub.loops, sub.depth, sub.expansion = running, 0, in.depth+1, nil
	if in.random != nil {
		sub.random = rand.New(rand.NewPCG(in.random.Uint64(), 0))
	}
	return &sub
}

// subshell executes statements in a copy of the shell, and returns their status.
func (in *interpreter) subshell(p *process, ctx context.Context, prepare func(*interpreter), statements []*syntax.Stmt) int {
	in.nest()
	sub := in.fork(p, ctx)
	defer sub.files.closeAll()
	prepare(sub)
	defer in.process.keepTraps()()
	return sub.run(statements)
}

// child returns a function that executes statements in a copy of the shell, as a process of its own.
func (in *interpreter) child(prepare func(*interpreter), statements []*syntax.Stmt) func(*process) int {
	in.nest()
	sub := in.fork(nil, nil)
	prepare(sub)
	return func(p *process) int {
		sub.process, sub.ctx = p, p.ctx
		defer sub.files.closeAll()
		return sub.protect(func() int { return sub.run(statements) })
	}
}

// nest ends the process if too many shells and functions are in each other.
func (in *interpreter) nest() {
	if in.depth >= in.limits.Depth {
		panic(&limitError{fmt.Sprintf("more than %d functions, subshells and scripts in each other", in.limits.Depth)})
	}
}

// protect calls a function, and returns the exit code of the panic that ends the process.
func (in *interpreter) protect(run func() int) (code int) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case unwind:
			code = r.code
		case *limitError:
			in.message("%v", r)
			code = 2
		default:
			in.message("internal error: %v\n%s", r, debug.Stack())
			code = 2
		}
	}()
	return run()
}

// message writes a message to the standard error, if that is possible.
func (in *interpreter) message(format string, args ...any) {
	if d := in.files[2]; d != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(in.ctx), time.Second)
		defer cancel()
		_, _ = d.write(ctx, []byte(in.name+": "+fmt.Sprintf(format, args...)+"\n"))
	}
}

// main executes the command of a container.
func (in *interpreter) main(args []string) int {
	return in.protect(func() int {
		in.begin(in.process.root.spec.Env)
		if len(args) > 0 {
			return in.program(args, true)
		}
		if spec := in.process.root.spec; spec.Stdin == nil {
			<-in.ctx.Done()
			in.step(0)
		}
		return in.program([]string{"sh"}, true)
	})
}

// step counts work, and ends the process if it was killed.
func (in *interpreter) step(n int) {
	if in.ctx.Err() != nil {
		panic(unwind{exitOf(context.Cause(in.ctx))})
	}
	in.process.step(n)
}

// fail writes a message and sets the status 1.
func (in *interpreter) fail(format string, args ...any) int {
	fmt.Fprintf(in.stderr(), in.name+": "+format+"\n", args...)
	in.status = 1
	return 1
}

// run executes the statements of a script, and its EXIT trap.
func (in *interpreter) run(statements []*syntax.Stmt) int {
	in.statements(statements)
	in.takeSignals()
	return in.end()
}

// end executes the EXIT trap and returns the exit code of the shell.
func (in *interpreter) end() int {
	if action := in.traps["EXIT"]; action != "" {
		delete(in.traps, "EXIT")
		status := in.status
		in.flow = running
		in.evaluate(action)
		if in.flow != exiting {
			in.status = status
		}
	}
	return in.status & 0xff
}

// statements executes statements in order.
func (in *interpreter) statements(list []*syntax.Stmt) {
	for _, s := range list {
		if in.statement(s); in.flow != running {
			return
		}
	}
}

// statement executes a statement.
func (in *interpreter) statement(s *syntax.Stmt) {
	in.step(1)
	if in.takeSignals(); in.flow != running || in.options.noExec && !in.interactive {
		return
	}
	if s.Coprocess || s.Disown {
		in.fail("coprocesses are not supported")
		return
	}
	if s.Background {
		in.start(s)
		return
	}
	began := len(in.substitutions)
	if len(s.Redirs) > 0 {
		in.redirected(s)
	} else {
		in.command(s.Cmd)
	}
	in.endSubstitutions(began)
	if s.Negated {
		in.status = oneIf(in.status == 0)
		return
	}
	if in.status != 0 && in.flow == running && in.quiet == 0 && !isList(s.Cmd) {
		in.runTrap("ERR")
		if in.options.errExit {
			in.flow = exiting
		}
	}
}

// isList reports whether a command is a list with && or ||, in which the last command has decided about -e.
func isList(c syntax.Command) bool {
	b, ok := c.(*syntax.BinaryCmd)
	return ok && (b.Op == syntax.AndStmt || b.Op == syntax.OrStmt)
}

func oneIf(is bool) int {
	if is {
		return 1
	}
	return 0
}

// start executes a statement in the background.
func (in *interpreter) start(s *syntax.Stmt) {
	foreground := *s
	foreground.Background = false
	child, err := in.process.fork(in.process.root.ctx, []string{in.name}, in.child(func(sub *interpreter) {
		if !in.interactive {
			sub.files.set(0, describe(nullStream{}))
		}
	}, []*syntax.Stmt{&foreground}))
	if err != nil {
		in.fail("%v", err)
		return
	}
	if len(in.background) >= 1000 {
		in.background = in.background[1:]
	}
	in.background = append(in.background, child)
	in.lastID, in.status = child.id, 0
}

// await waits for a process, and returns its exit code. The process ends with the context.
func (in *interpreter) await(p *process) int {
	select {
	case <-p.done:
	case <-in.ctx.Done():
		p.cancel(context.Cause(in.ctx))
		<-p.done
		in.step(0)
	}
	return p.code
}

// takeSignals executes the traps of pending signals.
func (in *interpreter) takeSignals() {
	if in.trapping || len(in.traps) == 0 {
		return
	}
	for {
		s, ok := in.process.take(in.traps)
		if !ok {
			return
		}
		in.runTrap(s.name())
	}
}

// runTrap executes the action of a trap. It does not change the status.
func (in *interpreter) runTrap(name string) {
	action := in.traps[name]
	if action == "" || in.trapping {
		return
	}
	status := in.status
	in.trapping = true
	in.evaluate(action)
	in.trapping = false
	if in.flow != exiting {
		in.status = status
	}
}

// parse parses a script.
func (in *interpreter) parse(text, name string) (*syntax.File, error) {
	if len(text) > in.limits.Script {
		return nil, fmt.Errorf("the script has more than %d bytes", in.limits.Script)
	}
	in.step(len(text) >> 8)
	if err := checkNesting(text); err != nil {
		return nil, err
	}
	f, err := syntax.NewParser().Parse(strings.NewReader(text), name)
	if pe, ok := errors.AsType[syntax.ParseError](err); ok {
		return nil, fmt.Errorf("line %d: syntax error: %s", pe.Pos.Line(), pe.Text)
	}
	if err != nil {
		return nil, fmt.Errorf("syntax error: %v", err)
	}
	return f, nil
}

// maxNesting bounds the brackets in each other in a script, since the parser is recursive.
const maxNesting = 500

// checkNesting returns an error if a script has too many brackets or keywords in each other. It counts more than there
// are in quotes and comments.
func checkNesting(text string) error {
	depth := 0
	for i := range len(text) {
		switch text[i] {
		case '(', '{', '[', '`':
			depth++
		case ')', '}', ']':
			depth = max(depth-1, 0)
		case '\n':
			if depth < 100 { // unbalanced brackets in text
				depth = 0
			}
		}
		if depth > maxNesting {
			return fmt.Errorf("syntax error: more than %d brackets in each other", maxNesting)
		}
	}
	keywords := 0
	for _, w := range strings.Fields(text) {
		switch w {
		case "if", "while", "until", "for", "case", "!", "select", "elif", "time", "function":
			keywords++
		case "fi", "done", "esac":
			keywords = max(keywords-1, 0)
		}
		if strings.HasSuffix(w, ";") || strings.HasPrefix(w, "#") {
			keywords = min(keywords, maxNesting/2)
		}
		if keywords > maxNesting {
			return fmt.Errorf("syntax error: more than %d commands in each other", maxNesting)
		}
	}
	return nil
}

// evaluate executes the text of eval and of traps.
func (in *interpreter) evaluate(text string) {
	f, err := in.parse(text, in.name)
	if err != nil {
		in.fail("%v", err)
		in.status = 2
		return
	}
	in.nest()
	in.depth++
	defer func() { in.depth-- }()
	in.statements(f.Stmts)
}

// reader returns a reader of a description.
func (in *interpreter) reader(d *description) io.Reader { return &boundReader{in, d} }

// writer returns a writer to a description.
func (in *interpreter) writer(d *description) io.Writer { return &boundWriter{in: in, d: d} }

func (in *interpreter) stdin() io.Reader  { return in.reader(in.files[0]) }
func (in *interpreter) stdout() io.Writer { return in.writer(in.files[1]) }
func (in *interpreter) stderr() io.Writer { return in.writer(in.files[2]) }

// boundReader reads for a shell.
type boundReader struct {
	in *interpreter
	d  *description
}

func (r *boundReader) Read(b []byte) (int, error) {
	if r.d == nil {
		return 0, syscall.EBADF
	}
	r.in.step(1)
	n, err := r.d.read(r.in.ctx, b)
	r.in.step(n >> 10)
	return n, err
}

// boundWriter writes for a shell. The process ends if nobody reads.
type boundWriter struct {
	in  *interpreter
	d   *description
	err error // the first error
}

func (w *boundWriter) Write(b []byte) (int, error) {
	if w.d == nil {
		w.err = syscall.EBADF
		return 0, w.err
	}
	w.in.step(1 + len(b)>>10)
	n, err := w.d.write(w.in.ctx, b)
	if err != nil {
		if limit, ok := errors.AsType[*limitError](err); ok {
			panic(limit)
		}
		w.in.step(0)
		if errors.Is(err, syscall.EPIPE) {
			panic(unwind{128 + int(sigPIPE)})
		}
		if w.err == nil {
			w.err = err
		}
	}
	return n, err
}
