package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"strconv"
	"strings"
)

// function is a function of upstream.
type function struct {
	name       string // with its package
	first, end int    // lines
	mentions   []string
}

// source has the functions of the validation packages.
type source struct {
	packages  map[string]bool
	functions map[string]*function
	files     map[string][]*function
}

func readSource(root string) (*source, error) {
	s := &source{packages: map[string]bool{}, functions: map[string]*function{}, files: map[string][]*function{}}
	files, err := filepath.Glob(filepath.Join(root, "pkg/apis/*/validation/*.go"))
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		if err := s.read(file, module+filepath.ToSlash(strings.TrimPrefix(file, root))); err != nil {
			return nil, err
		}
	}
	return s, nil
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
		fn := &function{name: pkg + "." + f.Name.Name, first: set.Position(f.Pos()).Line, end: set.Position(f.End()).Line}
		ast.Inspect(f.Body, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.SelectorExpr:
				if x, ok := n.X.(*ast.Ident); ok && imports[x.Name] != "" {
					fn.mentions = append(fn.mentions, imports[x.Name]+"."+n.Sel.Name)
					return false
				}
			case *ast.Ident:
				fn.mentions = append(fn.mentions, pkg+"."+n.Name)
			}
			return true
		})
		s.functions[fn.name] = fn
		s.files[name] = append(s.files[name], fn)
	}
	return nil
}

// report prints how many statements of a kind's functions were reached.
func (s *source) report(kind string, blocks []block, missing bool) {
	within := map[*function][]block{}
	reachable := map[*function]bool{}
	for _, b := range blocks {
		if f := s.at(b); f != nil {
			within[f] = append(within[f], b)
			if b.times > 0 {
				s.reach(f, reachable)
			}
		}
	}
	total, reached := 0, 0
	var left []string
	for f := range reachable {
		for _, b := range within[f] {
			total += b.statements
			if b.times > 0 {
				reached += b.statements
			} else {
				left = append(left, fmt.Sprintf("%s:%d %s", b.file, b.line, path.Base(f.name)))
			}
		}
	}
	fmt.Printf("%-60s %5d of %5d  %3d%%\n", kind, reached, total, 100*reached/max(1, total))
	if missing {
		for _, at := range left {
			fmt.Println("\t" + at)
		}
	}
}

// at returns the function of a block.
func (s *source) at(b block) *function {
	for _, f := range s.files[b.file] {
		if f.first <= b.line && b.line <= f.end {
			return f
		}
	}
	return nil
}

// reach adds a function and what it mentions.
func (s *source) reach(f *function, reachable map[*function]bool) {
	if reachable[f] {
		return
	}
	reachable[f] = true
	for _, name := range f.mentions {
		if next := s.functions[name]; next != nil {
			s.reach(next, reachable)
		}
	}
}
