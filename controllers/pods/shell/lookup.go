package shell

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"

	"flyball.dev/controllers/pods/runtime"
)

// program executes a handler, a program of this package or a script, and returns its exit code. Direct says that a
// client executes it, and not a script.
func (in *interpreter) program(args []string, direct bool) int {
	in.step(1)
	name := args[0]
	if code, ok := in.handler(args); ok {
		return code
	}
	if where := in.executable(name); where != "" {
		return in.script(where, args)
	}
	program := programs[name]
	if strings.Contains(name, "/") {
		dir, base := path.Split(in.pathOf(name))
		if program = programs[base]; !slices.Contains(binFolders, path.Clean(dir)) {
			program = nil
		}
	}
	if program == nil {
		return in.notFound(name, direct)
	}
	before := in.process.setArgs(args)
	defer in.process.setArgs(before)
	return in.runProgram(program, args)
}

// runProgram calls a program.
func (in *interpreter) runProgram(program func(*invocation) int, args []string) int {
	c := &invocation{in: in, called: args[0], args: append([]string{path.Base(args[0])}, args[1:]...), out: &boundWriter{in: in, d: in.files[1]}, err: in.stderr()}
	code := program(c)
	if c.out.err != nil && code == 0 {
		code = c.errorf("write error: %s", errText(c.out.err))
	}
	return code & 0xff
}

// notFound writes the message about a command that does not exist, or is not executable.
func (in *interpreter) notFound(name string, direct bool) int {
	if strings.Contains(name, "/") {
		if info, err := in.fs.Stat(in.pathOf(name)); err == nil {
			problem := syscall.EACCES
			if info.IsDir() {
				problem = syscall.EISDIR
			}
			in.fail("%s: %s", name, errText(problem))
			return 126
		}
	}
	switch {
	case direct && strings.Contains(name, "/"):
		fmt.Fprintf(in.stderr(), "exec: %q: stat %s: no such file or directory\n", name, name)
	case direct:
		fmt.Fprintf(in.stderr(), "exec: %q: executable file not found in $PATH\n", name)
	default:
		in.fail("%s: not found", name)
	}
	return 127
}

// handler executes a command by the handler that was registered for it, if there is one.
func (in *interpreter) handler(args []string) (code int, ok bool) {
	root := in.process.root
	find := in.process.machine.shell.find
	if find == nil || root.spec.Pod == nil || root.spec.Container == nil {
		return 0, false
	}
	p := *root.spec
	p.Args, p.Env, p.Dir, p.Exec, p.Status = args, in.exported(), in.dir, true, nil
	p.Streams = runtime.Streams{Stdin: in.stdin(), Stdout: in.stdout(), Stderr: in.stderr()}
	p.Next = func(ctx context.Context, p *runtime.Process) int {
		return in.protect(func() int { return in.notFound(p.Args[0], false) })
	}
	h := find(&p)
	if h == nil {
		return 0, false
	}
	killed := make(chan struct{})
	p.Killed = killed
	stop := context.AfterFunc(in.process.ctx, func() { close(killed) })
	defer stop()
	in.process.waited()
	code = h(in.ctx, &p)
	in.process.waited()
	in.step(0)
	return code & 0xff, true
}

// executable returns the path of the file in the container that is executed for a command, or "".
func (in *interpreter) executable(name string) string {
	is := func(name string) bool {
		info, err := in.fs.Stat(name)
		return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
	}
	if strings.Contains(name, "/") {
		if full := in.pathOf(name); is(full) {
			return full
		}
		return ""
	}
	for dir := range strings.SplitSeq(in.get("PATH"), ":") {
		if full := absolute(absolute(in.dir, dir), name); is(full) {
			return full
		}
	}
	return ""
}

// lookPath returns the path of a command, or "".
func (in *interpreter) lookPath(name string) string {
	if where := in.executable(name); where != "" {
		return where
	}
	if programs[name] != nil {
		return "/bin/" + name
	}
	return ""
}

// programInfo is the FileInfo of a program of this package.
type programInfo string

func (p programInfo) Name() string     { return path.Base(string(p)) }
func (programInfo) Size() int64        { return 1 << 10 }
func (programInfo) Mode() fs.FileMode  { return 0o755 }
func (programInfo) ModTime() time.Time { return time.Time{} }
func (programInfo) IsDir() bool        { return false }
func (p programInfo) Sys() any         { return string(p) }

// stat returns the FileInfo of a file, or of a program of this package.
func (in *interpreter) stat(name string) (fs.FileInfo, error) {
	info, err := in.fs.Stat(name)
	if err != nil {
		if dir, base := path.Split(name); programs[base] != nil && slices.Contains(binFolders, path.Clean(dir)) {
			return programInfo(name), nil
		}
		if n, ok := descriptorOf(name); ok && in.files[n] != nil {
			return programInfo(name), nil
		}
	}
	return info, err
}

// readScript reads a script.
func (in *interpreter) readScript(name string) (string, error) {
	d, err := in.openIn(name, syscall.O_RDONLY, 0)
	if err != nil {
		return "", err
	}
	defer d.release()
	if d.file != nil {
		if info, err := d.file.Stat(); err == nil && info.IsDir() {
			return "", syscall.EISDIR
		}
	}
	b, err := io.ReadAll(io.LimitReader(in.reader(d), int64(in.limits.Script)+1))
	return string(b), err
}

// script executes a file by the interpreter in its first line.
func (in *interpreter) script(where string, args []string) int {
	text, err := in.readScript(where)
	if err != nil {
		in.fail("%s: %s", where, errText(err))
		return 126
	}
	line, _, _ := strings.Cut(text, "\n")
	if by, ok := strings.CutPrefix(line, "#!"); ok {
		words := strings.Fields(by)
		if len(words) > 1 && path.Base(words[0]) == "env" {
			words = words[1:]
		}
		if len(words) == 0 || !isShell(path.Base(words[0])) {
			return in.notFound(strings.Join(words[:min(1, len(words))], " "), false)
		}
		args = append(append([]string{args[0]}, words[1:]...), append([]string{where}, args[1:]...)...)
		return in.fresh(func(sub *interpreter) int { return sub.shell(args) })
	}
	if strings.ContainsRune(line, 0) {
		in.fail("%s: cannot execute binary file", where)
		return 126
	}
	return in.fresh(func(sub *interpreter) int { return sub.shell(append([]string{"sh", where}, args[1:]...)) })
}

func isShell(name string) bool {
	return name == "sh" || name == "bash" || name == "ash" || name == "dash"
}

// fresh calls a function with a new shell in the same process, which has the exported variables of this one.
func (in *interpreter) fresh(run func(sub *interpreter) int) int {
	in.nest()
	sub := in.fork(in.process, in.ctx)
	defer sub.files.closeAll()
	sub.options, sub.name, sub.params, sub.calls, sub.quiet, sub.status = options{}, "sh", nil, 0, 0, 0
	sub.begin(in.exported())
	sub.random, sub.nextOption = nil, 0
	defer in.process.keepTraps()()
	return run(sub)
}

// shell executes sh with its arguments.
func (in *interpreter) shell(args []string) int {
	rest := args[1:]
	text, isText, fromInput, forced := "", false, false, false
	for len(rest) > 0 && len(rest[0]) > 1 && (rest[0][0] == '-' || rest[0][0] == '+') && rest[0] != "--" {
		flags := rest[0]
		rest = rest[1:]
		if strings.HasPrefix(flags, "--") {
			continue // --norc, --login, --posix
		}
		for _, f := range []byte(flags[1:]) {
			switch f {
			case 'c':
				isText = true
			case 's':
				fromInput = true
			case 'i':
				forced = true
			case 'l':
			default:
				arguments := []string{flags[:1] + string(f)}
				if f == 'o' && len(rest) > 0 {
					arguments = append(arguments, rest[0])
					rest = rest[1:]
				}
				if status, _, ok := in.setOptions(arguments); !ok {
					return status
				}
			}
		}
	}
	if len(rest) > 0 && rest[0] == "--" {
		rest = rest[1:]
	}
	switch {
	case isText:
		if len(rest) == 0 {
			in.name = args[0]
			return in.usage("-c requires an argument")
		}
		text = rest[0]
		if in.name = args[0]; len(rest) > 1 {
			in.name, in.params = rest[1], rest[2:]
		}
	case len(rest) > 0 && !fromInput:
		in.name, in.params = rest[0], rest[1:]
		var err error
		if text, err = in.readScript(rest[0]); err != nil {
			in.name = args[0]
			in.fail("can't open '%s': %s", rest[0], errText(err))
			return 127
		}
	default:
		in.name, in.params = args[0], rest
		terminal := in.files[0] != nil && in.files[0].terminal != nil
		return in.interact(terminal || forced)
	}
	f, err := in.parse(text, in.name)
	if err != nil {
		in.fail("%v", err)
		return 2
	}
	return in.run(f.Stmts)
}
