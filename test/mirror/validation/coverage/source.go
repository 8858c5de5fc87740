package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
)

// function is a function of upstream.
type function struct {
	name     string // with its package
	lines    span
	loops    []span // the bodies of the loops
	mentions []mention
}

// mention is a name in a function.
type mention struct {
	name string // with its package
	line int
}

// span is a range of lines.
type span struct{ first, last int }

func (s span) has(line int) bool { return s.first <= line && line <= s.last }

// inLoop reports whether a line is in a loop.
func (f *function) inLoop(line int) bool {
	return slices.ContainsFunc(f.loops, func(s span) bool { return s.has(line) })
}

// source has the functions of the validation packages.
type source struct {
	packages  map[string]bool
	functions map[string]*function
	files     map[string][]*function
	excluded  []*exclusion
}

// exclusion names a function that the objects of some kinds cannot reach.
type exclusion struct {
	kinds *regexp.Regexp
	name  string      // without its package
	loops bool        // whether they can reach all but the loops
	used  atomic.Bool // whether a function that was reached mentions it
}

// readUnreachable reads unreachable.txt. A line that begins with # is the reason for the lines that follow; each of these is
// a regular expression of the names of kinds and the names of functions. NAME:loops stands for the bodies of the loops of a
// function. An empty line ends the reason.
func (s *source) readUnreachable(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	reason := ""
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		switch {
		case len(words) == 0:
			reason = ""
			continue
		case strings.HasPrefix(line, "#"):
			reason += line
			continue
		case len(strings.Fields(reason)) < 4:
			return fmt.Errorf("%s: no reason for %q", file, line)
		}
		kinds, err := regexp.Compile("^(" + words[0] + ")$")
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		for _, word := range words[1:] {
			name, loops := strings.CutSuffix(word, ":loops")
			if !s.has(name) {
				return fmt.Errorf("%s: Kubernetes has no function %s", file, name)
			}
			s.excluded = append(s.excluded, &exclusion{kinds: kinds, name: name, loops: loops})
		}
	}
	return nil
}

// has reports whether a package has a function of this name.
func (s *source) has(name string) bool {
	for of := range s.functions {
		if path.Ext(of) == "."+name {
			return true
		}
	}
	return false
}

// unreachable reports whether the objects of a kind cannot reach a line of a function.
func (s *source) unreachable(kind string, f *function, line int) bool {
	found := false
	for _, e := range s.excluded {
		if "."+e.name == path.Ext(f.name) && e.kinds.MatchString(kind) && (!e.loops || f.inLoop(line)) {
			e.used.Store(true)
			found = true
		}
	}
	return found
}

// unused returns the entries of unreachable.txt that have excluded nothing.
func (s *source) unused() []string {
	var all []string
	for _, e := range s.excluded {
		if !e.used.Load() {
			all = append(all, fmt.Sprintf("%s %s", e.kinds, e.name))
		}
	}
	return all
}

func newSource() *source {
	return &source{packages: map[string]bool{}, functions: map[string]*function{}, files: map[string][]*function{}}
}

// readModule reads the validation packages of a module.
func (s *source) readModule(module, root string) error {
	files, err := filepath.Glob(filepath.Join(root, "pkg/apis/*/validation/*.go"))
	if err != nil {
		return err
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		if err := s.read(file, module+filepath.ToSlash(strings.TrimPrefix(file, root))); err != nil {
			return err
		}
	}
	return nil
}

func (s *source) read(file, name string) error {
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, file, nil, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	pkg := path.Dir(name)
	s.packages[pkg] = true
	imports := map[string]string{}
	for _, i := range parsed.Imports {
		from, _ := strconv.Unquote(i.Path.Value)
		as := path.Base(from)
		if i.Name != nil {
			as = i.Name.Name
		}
		imports[as] = from
	}
	for _, d := range parsed.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Body == nil {
			continue
		}
		s.add(newFunction(set, f, pkg, imports), name)
	}
	return nil
}

// add adds a function of a file.
func (s *source) add(f *function, file string) {
	s.functions[f.name] = f
	s.files[file] = append(s.files[file], f)
}

func newFunction(set *token.FileSet, f *ast.FuncDecl, pkg string, imports map[string]string) *function {
	line := func(p token.Pos) int { return set.Position(p).Line }
	fn := &function{name: pkg + "." + f.Name.Name, lines: span{line(f.Pos()), line(f.End())}}
	addMention := func(name string, at ast.Node) { fn.mentions = append(fn.mentions, mention{name, line(at.Pos())}) }
	addLoop := func(body *ast.BlockStmt) { fn.loops = append(fn.loops, span{line(body.Lbrace), line(body.Rbrace)}) }
	ast.Inspect(f.Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ForStmt:
			addLoop(n.Body)
		case *ast.RangeStmt:
			addLoop(n.Body)
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok && imports[x.Name] != "" {
				addMention(imports[x.Name]+"."+n.Sel.Name, n)
				return false
			}
		case *ast.Ident:
			addMention(pkg+"."+n.Name, n)
		}
		return true
	})
	return fn
}

// at returns the function of a block.
func (s *source) at(b block) *function {
	for _, f := range s.files[b.file] {
		if f.lines.has(b.line) {
			return f
		}
	}
	return nil
}
