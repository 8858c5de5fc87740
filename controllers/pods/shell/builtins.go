package shell

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

// builtins are the commands that work on the shell itself. They return the status.
var builtins map[string]func(in *interpreter, args []string) int

func init() {
	builtins = map[string]func(in *interpreter, args []string) int{
		":": func(*interpreter, []string) int { return 0 }, ".": source, "source": source, "break": leave, "continue": leave, "cd": changeDir,
		"command": command, "builtin": command, "eval": eval, "exec": execute, "exit": exit, "getopts": getopts,
		"hash": func(*interpreter, []string) int { return 0 }, "jobs": jobs, "kill": kill, "pwd": pwd, "read": read, "return": exit, "set": set,
		"shift": shift, "shopt": shopt, "times": times, "trap": trap, "type": typeOf, "ulimit": ulimit, "umask": umask,
		"unset": unset, "wait": wait,
	}
	for _, name := range []string{"true", "false", "echo", "printf", "test", "["} {
		builtins[name] = func(in *interpreter, args []string) int { return in.runProgram(programs[name], args) }
	}
}

// usage writes a message about the arguments of a command, and returns the status 2.
func (in *interpreter) usage(format string, args ...any) int {
	in.fail(format, args...)
	return 2
}

// source executes the commands of a file in this shell.
func source(in *interpreter, args []string) int {
	if len(args) < 2 {
		return in.usage("%s: filename argument required", args[0])
	}
	name := args[1]
	if !strings.Contains(name, "/") {
		if found := in.lookPath(name); found != "" {
			name = found
		}
	}
	text, err := in.readScript(name)
	if err != nil {
		return in.fail("%s: can't open '%s': %s", args[0], args[1], errText(err))
	}
	f, err := in.parse(text, name)
	if err != nil {
		in.fail("%s: %v", name, err)
		return 2
	}
	params := in.params
	if len(args) > 2 {
		in.params = args[2:]
	}
	in.nest()
	in.depth++
	in.calls++
	in.status = 0
	in.statements(f.Stmts)
	in.calls--
	in.depth--
	if len(args) > 2 {
		in.params = params
	}
	if in.flow == returning {
		in.flow = running
	}
	return in.status
}

func leave(in *interpreter, args []string) int {
	n := 1
	if len(args) > 1 {
		var err error
		if n, err = strconv.Atoi(args[1]); err != nil || n < 1 {
			return in.usage("%s: bad number: %s", args[0], args[1])
		}
	}
	if in.loops == 0 {
		return 0
	}
	in.levels = min(n, in.loops)
	in.flow = breaking
	if args[0] == "continue" {
		in.flow = continuing
	}
	return 0
}

// changeDir changes the working directory.
func changeDir(in *interpreter, args []string) int {
	to := ""
	for len(args) > 1 && (args[1] == "-L" || args[1] == "-P" || args[1] == "--") {
		args = args[1:]
	}
	switch {
	case len(args) > 2:
		return in.usage("cd: too many arguments")
	case len(args) == 1:
		if to = in.get("HOME"); to == "" {
			return 0
		}
	case args[1] == "-":
		if to = in.get("OLDPWD"); to == "" {
			return in.fail("cd: OLDPWD not set")
		}
		fmt.Fprintln(in.stdout(), to)
	default:
		to = args[1]
	}
	dir := in.pathOf(to)
	info, err := in.stat(dir)
	if err == nil && !info.IsDir() {
		err = syscall.ENOTDIR
	}
	if err != nil {
		return in.fail("cd: can't cd to %s: %s", to, errText(err))
	}
	old := in.dir
	in.dir = dir
	in.setText("OLDPWD", old)
	in.setText("PWD", dir)
	return 0
}

func pwd(in *interpreter, _ []string) int {
	fmt.Fprintln(in.stdout(), in.dir)
	return 0
}

// command executes a command without looking for a function, or says what it is.
func command(in *interpreter, args []string) int {
	describe := ""
	rest := args[1:]
	for len(rest) > 0 && args[0] == "command" && (rest[0] == "-v" || rest[0] == "-V" || rest[0] == "-p") {
		if rest[0] != "-p" {
			describe = rest[0]
		}
		rest = rest[1:]
	}
	if len(rest) == 0 {
		return 0
	}
	if describe == "" {
		if b := builtins[rest[0]]; b != nil {
			return b(in, rest)
		}
		return in.program(rest, false)
	}
	status := 0
	for _, name := range rest {
		kind, where := in.lookup(name)
		switch {
		case kind == "":
			status = 127
		case describe == "-V":
			in.describe(name, kind, where)
		default:
			fmt.Fprintln(in.stdout(), cmp.Or(where, name))
		}
	}
	return status
}

// lookup returns what sort of command a name is, and the path of a program.
func (in *interpreter) lookup(name string) (kind, where string) {
	switch {
	case syntax.IsKeyword(name):
		return "keyword", ""
	case in.functions[name] != nil:
		return "function", ""
	case builtins[name] != nil:
		return "builtin", ""
	}
	if strings.Contains(name, "/") {
		if info, err := in.stat(in.pathOf(name)); err == nil && info.Mode().IsRegular() {
			return "file", name
		}
		return "", ""
	}
	if where = in.lookPath(name); where != "" {
		return "file", where
	}
	return "", ""
}

func (in *interpreter) describe(name, kind, where string) {
	switch kind {
	case "file":
		fmt.Fprintf(in.stdout(), "%s is %s\n", name, where)
	case "builtin":
		fmt.Fprintf(in.stdout(), "%s is a shell builtin\n", name)
	default:
		fmt.Fprintf(in.stdout(), "%s is a shell %s\n", name, kind)
	}
}

// typeOf prints the sort of command of each name.
func typeOf(in *interpreter, args []string) int {
	status, short, path := 0, false, false
	for _, name := range args[1:] {
		switch name {
		case "-t":
			short = true
			continue
		case "-p", "-P":
			path = true
			continue
		}
		kind, where := in.lookup(name)
		switch {
		case kind == "":
			if status = 1; !short && !path {
				in.fail("type: %s: not found", name)
			}
		case short:
			fmt.Fprintln(in.stdout(), kind)
		case path:
			if where != "" {
				fmt.Fprintln(in.stdout(), where)
			}
		default:
			in.describe(name, kind, where)
		}
	}
	return status
}

func eval(in *interpreter, args []string) int {
	text := strings.Join(args[1:], " ")
	if strings.TrimSpace(text) == "" {
		return 0
	}
	in.evaluate(text)
	return in.status
}

// execute executes a command instead of the shell, or makes the redirections of the statement permanent.
func execute(in *interpreter, args []string) int {
	if len(args) == 1 {
		in.keepFiles = true
		return 0
	}
	status := in.program(args[1:], false)
	delete(in.traps, "EXIT")
	in.flow = exiting
	return status
}

// exit ends the shell or, as return, a function.
func exit(in *interpreter, args []string) int {
	status := in.status
	if in.quiet > 0 && len(args) == 1 {
		status = in.status
	}
	if len(args) > 1 {
		n, err := strconv.Atoi(args[1])
		if err != nil {
			n = 2
			in.fail("%s: illegal number: %s", args[0], args[1])
		}
		status = n & 0xff
	}
	in.flow = exiting
	if args[0] == "return" && in.calls > 0 {
		in.flow = returning
	}
	return status
}

// set sets options and parameters, or lists the variables.
func set(in *interpreter, args []string) int {
	rest := args[1:]
	if len(rest) == 0 {
		names := map[string]string{}
		environment{in}.Each(func(name string, v expand.Variable) bool {
			if _, seen := names[name]; !seen && v.Set {
				names[name] = v.String()
			}
			return true
		})
		for _, name := range slices.Sorted(maps.Keys(names)) {
			fmt.Fprintf(in.stdout(), "%s=%s\n", name, quote(names[name]))
		}
		return 0
	}
	if status, rest, ok := in.setOptions(rest); !ok || rest == nil {
		return status
	} else {
		size := 0
		for _, p := range rest {
			size += 16 + len(p)
		}
		if size > in.limits.Memory {
			panic(&limitError{"the arguments have more than " + strconv.Itoa(in.limits.Memory) + " bytes"})
		}
		in.params = rest
	}
	return 0
}

// setOptions sets options by flags, and returns the arguments after them, which are nil if the parameters stay.
func (in *interpreter) setOptions(args []string) (status int, rest []string, ok bool) {
	for len(args) > 0 {
		a := args[0]
		if a == "--" {
			return 0, append([]string{}, args[1:]...), true
		}
		if len(a) < 2 || a[0] != '-' && a[0] != '+' {
			return 0, args, true
		}
		args = args[1:]
		on := a[0] == '-'
		for _, flag := range []byte(a[1:]) {
			o := in.options.byFlag(flag)
			if flag == 'o' {
				if len(args) == 0 {
					for _, name := range append(slices.Sorted(maps.Keys(optionNames)), "pipefail") {
						fmt.Fprintf(in.stdout(), "%-15s\t%s\n", name, map[bool]string{true: "on", false: "off"}[*in.options.byName(name)])
					}
					return 0, nil, true
				}
				if o = in.options.byName(args[0]); o == nil {
					return in.usage("set: illegal option -o %s", args[0]), nil, false
				}
				args = args[1:]
			}
			switch {
			case o != nil:
				*o = on
			case !strings.ContainsRune("hmbvBHEPT", rune(flag)):
				return in.usage("set: illegal option %c%c", a[0], flag), nil, false
			}
		}
	}
	return 0, nil, true
}

// quote quotes a text for the shell, if necessary.
func quote(s string) string {
	q, err := syntax.Quote(s, syntax.LangBash)
	if err != nil {
		return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
	}
	return q
}

func shift(in *interpreter, args []string) int {
	n := 1
	if len(args) > 1 {
		var err error
		if n, err = strconv.Atoi(args[1]); err != nil || n < 0 {
			return in.usage("shift: illegal number: %s", args[1])
		}
	}
	if n > len(in.params) {
		return 1
	}
	in.params = in.params[n:]
	return 0
}

func shopt(in *interpreter, args []string) int {
	on, status := true, 0
	for _, name := range args[1:] {
		switch name {
		case "-s", "-q":
			continue
		case "-u":
			on = false
			continue
		}
		if o := in.options.shopt(name); o != nil {
			*o = on
		} else if !on {
			continue // it is off
		} else {
			status = in.fail("shopt: %s: not supported", name)
		}
	}
	return status
}

func times(in *interpreter, _ []string) int {
	fmt.Fprint(in.stdout(), "0m0.000s 0m0.000s\n0m0.000s 0m0.000s\n")
	return 0
}

func ulimit(in *interpreter, _ []string) int {
	fmt.Fprintln(in.stdout(), "unlimited")
	return 0
}

func umask(in *interpreter, args []string) int {
	if len(args) == 1 {
		fmt.Fprintln(in.stdout(), "0022")
	}
	return 0
}
