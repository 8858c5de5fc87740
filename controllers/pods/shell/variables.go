package shell

import (
	"maps"
	"math/rand/v2"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"mvdan.cc/sh/v3/expand"
)

// scope has the variables of a shell, or the local variables of a function.
type scope struct {
	variables map[string]expand.Variable
	parent    *scope
}

// clone copies a scope and its parents.
func (s *scope) clone() *scope {
	if s == nil {
		return nil
	}
	return &scope{maps.Clone(s.variables), s.parent.clone()}
}

// find returns the scope of a variable, or the outermost.
func (s *scope) find(name string) *scope {
	for ; s.parent != nil; s = s.parent {
		if _, ok := s.variables[name]; ok {
			return s
		}
	}
	return s
}

// sizeOf returns the size of a variable.
func sizeOf(name string, v expand.Variable) int {
	if !v.Declared() {
		return 0
	}
	n := 64 + len(name) + len(v.Str)
	for _, e := range v.List {
		n += 16 + len(e)
	}
	for k, e := range v.Map {
		n += 64 + len(k) + len(e)
	}
	return n
}

// grow counts bytes of variables, and ends the shell if they are too many.
func (in *interpreter) grow(n int) {
	if in.size += n; in.size > in.limits.Memory {
		panic(&limitError{"the variables and functions have more than " + strconv.Itoa(in.limits.Memory) + " bytes"})
	}
}

// variable returns a variable or a special parameter.
func (in *interpreter) variable(name string) expand.Variable {
	text := func(s string) expand.Variable { return expand.Variable{Set: true, Kind: expand.String, Str: s} }
	switch name {
	case "":
		return expand.Variable{}
	case "#":
		return text(strconv.Itoa(len(in.params)))
	case "@", "*":
		return expand.Variable{Set: true, Kind: expand.Indexed, List: append([]string{}, in.params...)}
	case "?":
		return text(strconv.Itoa(in.status))
	case "$":
		return text(strconv.Itoa(in.id))
	case "BASHPID":
		return text(strconv.Itoa(in.process.id))
	case "PPID":
		return text(strconv.Itoa(in.process.root.parent))
	case "!":
		if in.lastID != 0 {
			return text(strconv.Itoa(in.lastID))
		}
		return expand.Variable{}
	case "-":
		return text(in.options.flags(in.interactive))
	case "RANDOM":
		if in.random == nil {
			return text(strconv.Itoa(rand.IntN(1 << 15)))
		}
		return text(strconv.Itoa(in.random.IntN(1 << 15)))
	case "SECONDS":
		return text(strconv.Itoa(int(time.Since(in.started).Seconds())))
	case "0":
		return text(in.name)
	}
	if n, err := strconv.Atoi(name); err == nil {
		if n > 0 && n <= len(in.params) {
			return text(in.params[n-1])
		}
		return expand.Variable{}
	}
	if user, ok := strings.CutPrefix(name, "HOME "); ok {
		return text(in.home(user))
	}
	return in.scope.find(name).variables[name]
}

// home returns the home directory of a user of the container, or ~user.
func (in *interpreter) home(user string) string {
	for line := range strings.SplitSeq(in.readSmall("/etc/passwd"), "\n") {
		if f := strings.Split(line, ":"); len(f) >= 6 && f[0] == user {
			return f[5]
		}
	}
	if user == "root" {
		return "/root"
	}
	return "~" + user
}

// readSmall returns the beginning of a file of the container, or "".
func (in *interpreter) readSmall(name string) string {
	f, err := in.fs.OpenFile(name, syscall.O_RDONLY, 0)
	if err != nil {
		return ""
	}
	defer f.Close()
	b := make([]byte, 16<<10)
	n, _ := f.Read(b)
	return string(b[:max(n, 0)])
}

// readOnlyError is the error of an assignment to a variable that is read-only.
type readOnlyError struct{ name string }

func (e readOnlyError) Error() string { return e.name + ": is read only" }

// assign sets a variable. A variable that is not set is removed.
func (in *interpreter) assign(name string, v expand.Variable) error {
	s := in.scope.find(name)
	if v.Local {
		s = in.scope
	}
	old := s.variables[name]
	if old.ReadOnly {
		return readOnlyError{name}
	}
	switch name {
	case "RANDOM":
		seed, _ := strconv.ParseUint(v.Str, 10, 64)
		in.random = rand.New(rand.NewPCG(seed, 0))
	case "SECONDS":
		n, _ := strconv.Atoi(v.Str)
		in.started = time.Now().Add(-time.Duration(n) * time.Second)
	}
	if in.options.allExport {
		v.Exported = true
	}
	in.grow(sizeOf(name, v) - sizeOf(name, old))
	if !v.Declared() {
		delete(s.variables, name)
		return nil
	}
	s.variables[name] = v
	return nil
}

// setText sets a variable to a text, and keeps its attributes.
func (in *interpreter) setText(name, value string) {
	v := in.scope.find(name).variables[name]
	v.Set, v.Kind, v.Str, v.List, v.Map, v.Indexes = true, expand.String, value, nil, nil, nil
	if err := in.assign(name, v); err != nil {
		in.fail("%v", err)
	}
}

// get returns the text of a variable.
func (in *interpreter) get(name string) string { return in.variable(name).String() }

// exported returns the environment of programs, sorted.
func (in *interpreter) exported() (env []string) {
	seen := map[string]bool{}
	for s := in.scope; s != nil; s = s.parent {
		for name, v := range s.variables {
			if !seen[name] && v.Exported && v.Set && v.Kind == expand.String {
				env = append(env, name+"="+v.Str)
			}
			seen[name] = true
		}
	}
	slices.Sort(env)
	return env
}

// environment gives the expansion of words access to the variables. It counts the bytes that a word reads.
type environment struct{ in *interpreter }

var _ expand.WriteEnviron = environment{}

func (e environment) Get(name string) expand.Variable {
	v := e.in.variable(name)
	e.in.expansion.read(sizeOf("", v))
	return v
}

func (e environment) Set(name string, v expand.Variable) error { return e.in.assign(name, v) }

func (e environment) Each(f func(name string, v expand.Variable) bool) {
	for s := e.in.scope; s != nil; s = s.parent {
		for name, v := range s.variables {
			if !f(name, v) {
				return
			}
		}
	}
}

// options are the options of set.
type options struct {
	allExport, errExit, noGlob, noExec, unset, trace, noClobber, pipeFail bool
	dotGlob, extGlob, globStar, noCaseGlob, nullGlob                      bool // of shopt
}

// byFlag returns the option with a letter, or nil.
func (o *options) byFlag(flag byte) *bool {
	switch flag {
	case 'a':
		return &o.allExport
	case 'e':
		return &o.errExit
	case 'f':
		return &o.noGlob
	case 'n':
		return &o.noExec
	case 'u':
		return &o.unset
	case 'x':
		return &o.trace
	case 'C':
		return &o.noClobber
	}
	return nil
}

// optionNames are the options that set -o knows, with their letters.
var optionNames = map[string]byte{"allexport": 'a', "errexit": 'e', "noglob": 'f', "noexec": 'n', "nounset": 'u', "xtrace": 'x', "noclobber": 'C'}

// byName returns the option with a name, or nil.
func (o *options) byName(name string) *bool {
	if name == "pipefail" {
		return &o.pipeFail
	}
	return o.byFlag(optionNames[name])
}

// shopt returns the option of shopt with a name, or nil.
func (o *options) shopt(name string) *bool {
	switch name {
	case "dotglob":
		return &o.dotGlob
	case "extglob":
		return &o.extGlob
	case "globstar":
		return &o.globStar
	case "nocaseglob":
		return &o.noCaseGlob
	case "nullglob":
		return &o.nullGlob
	}
	return nil
}

// flags returns the value of $-.
func (o *options) flags(interactive bool) (s string) {
	for _, flag := range []byte("aefnuxC") {
		if *o.byFlag(flag) {
			s += string(flag)
		}
	}
	if interactive {
		s += "i"
	}
	return s
}

// pathOf returns the absolute path of a name in the working directory.
func (in *interpreter) pathOf(name string) string { return path.Clean(absolute(in.dir, name)) }
