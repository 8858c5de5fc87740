package shell

import (
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// Knows reports whether the shell has everything that a command names: the program, and for sh -c the programs that the
// script calls. A script in a file, and a name that is only known when the script runs, count as unknown. So the shell
// does not know sh -c "exec /manager", and a container with this command does not fail because a program is missing. For the same
// reason it does not know a cp or mv from a file that only the image can have. has reports whether a file of the image is a program
// with that name or path, and lacks whether a file can only come from the image, and is not there; each may be nil.
//
// wget and curl count as known if asks is set and the shell has their options, except in a loop or a function of a script: these may
// wait for a server that nothing executes.
func (s *Shell) Knows(args []string, has, lacks func(name string) bool, asks bool) bool {
	no := func(string) bool { return false }
	if has == nil {
		has = no
	}
	if lacks == nil {
		lacks = no
	}
	return len(args) > 0 && knowledge{has, lacks, asks}.knows(args, 0)
}

// knowledge adds the programs of an image to the programs of this package, and knows the files that are not there. asks says whether
// it knows the programs that ask a server.
type knowledge struct {
	has, lacks func(name string) bool
	asks       bool
}

// maxKnown bounds the scripts in each other that Knows looks into.
const maxKnown = 10

// wrappers are the commands that execute the command in their arguments.
var wrappers = []string{"exec", "command", "builtin", "nohup", "setsid", "nice", "time", "env", "timeout", "xargs", "busybox"}

// askers are the programs that ask a server, with their options.
var askers = map[string]string{"wget": wgetOptions, "curl": curlOptions}

// hasProgram reports whether a name is a program of this package.
func hasProgram(name string) bool {
	if dir, base := path.Split(name); dir != "" {
		return programs[base] != nil && slices.Contains(binFolders, path.Clean(dir))
	}
	return programs[name] != nil
}

// knows reports whether a command is known, at a depth of scripts in each other.
func (k knowledge) knows(args []string, depth int) bool {
	name := args[0]
	if k.has(name) {
		return true
	}
	if !hasProgram(name) && builtins[name] == nil || depth > maxKnown {
		return false
	}
	name = path.Base(name)
	switch {
	case name == "." || name == "source":
		return false
	case name == "nc":
		return listens(args)
	case askers[name] != "":
		_, err := parseOptions(args, askers[name])
		return k.asks && err == nil
	case isCopy(name):
		return !k.copiesLacking(args[1:])
	case name == "eval":
		return k.knowsScript(strings.Join(args[1:], " "), depth+1)
	case isShell(name):
		return k.knowsShell(args, depth)
	case slices.Contains(wrappers, name):
		rest := args[1:]
		for len(rest) > 0 && (strings.HasPrefix(rest[0], "-") || strings.Contains(rest[0], "=") || rest[0] == "") {
			if name == "command" && (rest[0] == "-v" || rest[0] == "-V") {
				return true
			}
			if strings.HasPrefix(rest[0], "-") && slices.Contains([]string{"-n", "-I", "-u", "-s", "-k", "-P", "-L", "-d"}, rest[0]) && len(rest) > 1 {
				rest = rest[1:]
			}
			rest = rest[1:]
		}
		if name == "timeout" && len(rest) > 0 {
			rest = rest[1:]
		}
		return len(rest) == 0 || k.knows(rest, depth+1)
	}
	return true
}

// isCopy reports whether a program copies or moves files.
func isCopy(name string) bool { return name == "cp" || name == "mv" }

// copiesLacking reports whether one of the sources of cp or mv is a file that is not there. The last operand is the target.
func (k knowledge) copiesLacking(args []string) bool {
	operands := slices.DeleteFunc(slices.Clone(args), func(arg string) bool { return strings.HasPrefix(arg, "-") })
	return len(operands) > 1 && slices.ContainsFunc(operands[:len(operands)-1], func(source string) bool {
		return path.IsAbs(source) && !hasProgram(path.Clean(source)) && k.lacks(path.Clean(source))
	})
}

// knowsShell reports whether the script of sh -c has known commands only.
func (k knowledge) knowsShell(args []string, depth int) bool {
	isText := false
	for i, arg := range args[1:] {
		if strings.HasPrefix(arg, "-") && !strings.HasPrefix(arg, "--") {
			isText = isText || strings.Contains(arg, "c")
			continue
		}
		return isText && k.knowsScript(args[i+1], depth+1)
	}
	return true // the standard input
}

// knowsScript reports whether a script has known commands only. A script with a syntax error is known, since it fails in a
// container too.
func (k knowledge) knowsScript(text string, depth int) bool {
	if depth > maxKnown || len(text) > 64<<10 || checkNesting(text) != nil {
		return false
	}
	f, err := syntax.NewParser().Parse(strings.NewReader(text), "")
	if err != nil {
		return true // it fails, as it would in a container
	}
	functions := map[string]bool{}
	syntax.Walk(f, func(n syntax.Node) bool {
		if d, ok := n.(*syntax.FuncDecl); ok && d.Name != nil {
			functions[d.Name.Value] = true
		}
		return true
	})
	k.lacks = k.withoutMade(f)
	return k.knowsCalls(f, functions, depth)
}

// knowsCalls reports whether the commands in a node of a script are known, besides its functions.
func (k knowledge) knowsCalls(n syntax.Node, functions map[string]bool, depth int) bool {
	all := true
	syntax.Walk(n, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.WhileClause, *syntax.ForClause, *syntax.FuncDecl:
			if k.asks && all {
				repeated := k
				repeated.asks = false
				all = repeated.knowsCalls(n, functions, depth)
				return false
			}
		case *syntax.CallExpr:
			if len(n.Args) > 0 && all {
				var args []string
				for _, w := range n.Args {
					args = append(args, literalOf(w))
				}
				all = functions[args[0]] || args[0] != "" && k.knows(args, depth)
			}
		}
		return all
	})
	return all
}

// withoutMade returns lacks for a script, without the files and folders that other commands of the script name: they may make them.
func (k knowledge) withoutMade(f *syntax.File) func(name string) bool {
	made := map[string]bool{}
	syntax.Walk(f, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.Redirect:
			if n.Word != nil {
				made[path.Clean(literalOf(n.Word))] = true
			}
		case *syntax.CallExpr:
			args := n.Args
			if len(args) > 1 && isCopy(path.Base(literalOf(args[0]))) {
				args = args[len(args)-1:]
			}
			for _, w := range args {
				made[path.Clean(literalOf(w))] = true
			}
		}
		return true
	})
	return func(name string) bool {
		for at := name; at != "/"; at = path.Dir(at) {
			if made[at] {
				return false
			}
		}
		return k.lacks(name)
	}
}

// literalOf returns the text of a word without expansions, or "".
func literalOf(w *syntax.Word) string {
	var b strings.Builder
	for _, p := range w.Parts {
		switch p := p.(type) {
		case *syntax.Lit:
			b.WriteString(strings.ReplaceAll(p.Value, `\`, ""))
		case *syntax.SglQuoted:
			b.WriteString(p.Value)
		case *syntax.DblQuoted:
			b.WriteString(literalOf(&syntax.Word{Parts: p.Parts}))
		default:
			return ""
		}
	}
	return b.String()
}
