package shell

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// finding is a run of find.
type finding struct {
	c           *invocation
	args        []string // that are not parsed yet
	least, most int      // levels below the folders of the command
	acts        bool     // the expression says what to do with the files
	pruned      bool     // the files below the present folder do not count
	remove      []string
}

// A condition of find is true or false for a file. It may act on the file.
type condition func(name string, info fs.FileInfo) bool

// find prints the files below folders. It knows -name, -iname, -path, -type, -empty, -maxdepth, -mindepth, -print, -print0,
// -delete, -prune, !, -a, -o and parentheses.
func find(c *invocation) int {
	f := &finding{c: c, args: c.args[1:], most: 1 << 30}
	var roots []string
	for len(f.args) > 0 && !strings.HasPrefix(f.args[0], "-") && f.args[0] != "!" && f.args[0] != "(" {
		roots, f.args = append(roots, f.args[0]), f.args[1:]
	}
	if len(roots) == 0 {
		roots = []string{"."}
	}
	matches, err := f.parse()
	if err != nil {
		return c.errorf("%v", err)
	}
	code := 0
	for _, root := range roots {
		code = max(code, f.below(root, matches))
	}
	return code
}

// below looks for files in a folder.
func (f *finding) below(root string, matches condition) int {
	base := strings.Count(strings.TrimSuffix(root, "/"), "/")
	code := f.c.walk(root, func(name string, info fs.FileInfo) bool {
		depth := strings.Count(strings.TrimSuffix(name, "/"), "/") - base
		f.pruned = false
		if depth >= f.least && matches(name, info) && !f.acts {
			f.c.printf("%s\n", name)
		}
		return depth < f.most && !f.pruned
	})
	for _, name := range slices.Backward(f.remove) { // files before their folders
		if err := f.c.in.fs.Remove(f.c.path(name)); err != nil {
			code = f.c.fileError(name, err)
		}
	}
	f.remove = nil
	return code
}

// parse parses the whole expression.
func (f *finding) parse() (condition, error) {
	if len(f.args) == 0 {
		return func(string, fs.FileInfo) bool { return true }, nil
	}
	e, err := f.or(0)
	if err == nil && len(f.args) > 0 {
		err = fmt.Errorf("unexpected '%s'", f.args[0])
	}
	return e, err
}

// maxParentheses bounds the nesting of an expression: parentheses and negations.
const maxParentheses = 100

// or parses conditions between -o.
func (f *finding) or(nesting int) (condition, error) {
	left, err := f.and(nesting)
	for err == nil && f.accept("-o", "-or") {
		var right condition
		if right, err = f.and(nesting); err == nil {
			first := left
			left = func(name string, info fs.FileInfo) bool { return first(name, info) || right(name, info) }
		}
	}
	return left, err
}

// and parses conditions that follow each other, with or without -a.
func (f *finding) and(nesting int) (condition, error) {
	left, err := f.not(nesting)
	for err == nil && len(f.args) > 0 && f.args[0] != ")" && f.args[0] != "-o" && f.args[0] != "-or" {
		f.accept("-a", "-and")
		var right condition
		if right, err = f.not(nesting); err == nil {
			first := left
			left = func(name string, info fs.FileInfo) bool { return first(name, info) && right(name, info) }
		}
	}
	return left, err
}

// not parses a condition, or one in parentheses, after ! or not.
func (f *finding) not(nesting int) (condition, error) {
	if nesting > maxParentheses {
		return nil, errors.New("the expression is too deep")
	}
	switch {
	case f.accept("!", "-not"):
		inner, err := f.not(nesting + 1)
		return func(name string, info fs.FileInfo) bool { return !inner(name, info) }, err
	case f.accept("("):
		inner, err := f.or(nesting + 1)
		if err == nil && !f.accept(")") {
			err = errors.New("missing ')'")
		}
		return inner, err
	}
	return f.primary()
}

// accept skips the next argument if it is one of some words.
func (f *finding) accept(words ...string) bool {
	if len(f.args) == 0 || !slices.Contains(words, f.args[0]) {
		return false
	}
	f.args = f.args[1:]
	return true
}

// primary parses a condition.
func (f *finding) primary() (condition, error) {
	if len(f.args) == 0 {
		return nil, errors.New("the expression ends early")
	}
	op := f.args[0]
	f.args = f.args[1:]
	if act := f.action(op); act != nil {
		return act, nil
	}
	if !slices.Contains([]string{"-name", "-iname", "-path", "-type", "-maxdepth", "-mindepth"}, op) {
		return nil, fmt.Errorf("%s: not supported", op)
	}
	if len(f.args) == 0 {
		return nil, fmt.Errorf("missing argument to '%s'", op)
	}
	value := f.args[0]
	f.args = f.args[1:]
	return f.test(op, value)
}

// action returns the condition for a word without an argument, or nil.
func (f *finding) action(op string) condition {
	switch op {
	case "-print", "-print0":
		f.acts = true
		end := map[string]string{"-print": "\n", "-print0": "\x00"}[op]
		return func(name string, _ fs.FileInfo) bool {
			f.c.printf("%s%s", name, end)
			return true
		}
	case "-delete":
		f.acts = true
		return func(name string, _ fs.FileInfo) bool {
			f.remove = append(f.remove, name)
			return true
		}
	case "-prune":
		return func(string, fs.FileInfo) bool {
			f.pruned = true
			return true
		}
	case "-empty":
		return func(name string, info fs.FileInfo) bool {
			if info.IsDir() {
				entries, err := f.c.in.fs.ReadDir(f.c.path(name))
				return err == nil && len(entries) == 0
			}
			return info.Mode().IsRegular() && info.Size() == 0
		}
	}
	return nil
}

// test returns the condition for a word with an argument.
func (f *finding) test(op, value string) (condition, error) {
	switch op {
	case "-name":
		return func(name string, _ fs.FileInfo) bool { return f.c.in.match(value, path.Base(name)) }, nil
	case "-iname":
		value = strings.ToLower(value)
		return func(name string, _ fs.FileInfo) bool { return f.c.in.match(value, strings.ToLower(path.Base(name))) }, nil
	case "-path":
		return func(name string, _ fs.FileInfo) bool { return f.c.in.match(value, name) }, nil
	case "-type":
		kind, ok := map[string]string{"f": "-", "d": "d", "l": "l", "c": "c"}[value]
		if !ok {
			return nil, fmt.Errorf("invalid argument '%s' to '-type'", value)
		}
		return func(_ string, info fs.FileInfo) bool { return modeText(info.Mode())[:1] == kind }, nil
	}
	n, err := strconv.Atoi(value)
	if err != nil || n < 0 {
		return nil, fmt.Errorf("invalid number '%s'", value)
	}
	if op == "-maxdepth" {
		f.most = n
	} else {
		f.least = n
	}
	return func(string, fs.FileInfo) bool { return true }, nil
}
