package peer

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strconv"
	"strings"

	"flyball.dev/internal/gotest"
)

// An edit replaces the bytes from..to of a file by blanks, or inserts a text at from.
type edit struct {
	from, to int
	insert   string
	names    []string // declarations that are removed
	specs    []string // specs that are removed
}

// apply makes the edits that do not lie within another, and keeps the lines.
func apply(content []byte, edits []edit) []byte {
	slices.SortFunc(edits, func(a, b edit) int { return b.from - a.from }) // from the end
	out := slices.Clone(content)
	for i, e := range edits {
		if slices.ContainsFunc(edits, func(o edit) bool {
			return o.insert == "" && (o.from < e.from && e.to <= o.to || o.from <= e.from && e.to < o.to)
		}) {
			continue
		}
		if slices.ContainsFunc(edits[:i], func(o edit) bool {
			return o.from == e.from && o.to == e.to && o.insert == e.insert
		}) {
			continue
		}
		if e.insert != "" {
			out = slices.Concat(out[:e.from], []byte(e.insert), out[e.from:])
			continue
		}
		for i := e.from; i < e.to; i++ {
			if out[i] != '\n' {
				out[i] = ' '
			}
		}
	}
	return out
}

// repair returns the smallest edit that removes an error: the use of an unused variable, or the
// removal of an import, of a statement of the suite's setup, of a table entry, spec, container or
// subtest, or of a declaration.
func repair(fset *token.FileSet, file *ast.File, name string, failure types.Error) edit {
	path := enclosing(file, failure.Pos)
	offset := func(p token.Pos) int { return fset.Position(p).Offset }
	remove := func(n ast.Node) edit {
		return edit{from: offset(n.Pos()), to: offset(n.End()), names: declared(n), specs: specsIn(fset, name, path, n)}
	}
	if variable, ok := strings.CutPrefix(failure.Msg, "declared and not used: "); ok {
		for i := len(path) - 1; i > 0; i-- {
			if body := bodyOf(path[i]); body != nil && failure.Pos < body.Pos() {
				begin := offset(body.Lbrace) + 1
				return edit{from: begin, to: begin, insert: " _ = " + variable + ";"}
			}
			if _, inBlock := path[i-1].(*ast.BlockStmt); inBlock {
				end := offset(path[i].End())
				return edit{from: end, to: end, insert: "; _ = " + variable}
			}
		}
	}
	for i := len(path) - 1; i > 0; i-- {
		switch n := path[i].(type) {
		case *ast.BlockStmt:
			// path[i-1] is the function literal that is the argument of the call.
			if call, ok := path[i-2].(*ast.CallExpr); ok && slices.Contains(setups, called(call)) && i+1 < len(path) {
				return remove(path[i+1])
			}
		case *ast.CallExpr:
			if parent, ok := path[i-1].(*ast.CallExpr); ok && strings.HasSuffix(called(n), "Entry") {
				e := remove(n)
				if last := len(parent.Args) - 1; parent.Args[last] != n {
					e.to = offset(parent.Args[slices.Index(parent.Args, ast.Expr(n))+1].Pos())
				} else {
					e.to = offset(parent.Rparen)
				}
				return e
			}
		case *ast.ExprStmt:
			if call, ok := n.X.(*ast.CallExpr); ok && isTest(call) {
				return remove(n)
			}
		case *ast.FuncDecl:
			return remove(n)
		case *ast.ImportSpec, *ast.TypeSpec, *ast.ValueSpec:
			if parent, ok := path[i-1].(*ast.GenDecl); ok && len(path) > 1 && i == 2 {
				if !parent.Lparen.IsValid() {
					return remove(parent)
				}
				return remove(n)
			}
		}
	}
	return remove(path[min(1, len(path)-1)])
}

// bodyOf returns the body of a statement that declares variables before it, else nil.
func bodyOf(n ast.Node) *ast.BlockStmt {
	switch n := n.(type) {
	case *ast.RangeStmt:
		return n.Body
	case *ast.ForStmt:
		return n.Body
	case *ast.IfStmt:
		return n.Body
	}
	return nil
}

// enclosing returns the nodes around a position, from the file inwards.
func enclosing(file *ast.File, pos token.Pos) (path []ast.Node) {
	ast.Inspect(file, func(n ast.Node) bool {
		if n == nil || pos < n.Pos() || pos >= n.End() && n != ast.Node(file) {
			return false
		}
		path = append(path, n)
		return true
	})
	return path
}

// called returns the name of the function that is called, the last part of a qualified one.
func called(call *ast.CallExpr) string {
	switch f := call.Fun.(type) {
	case *ast.Ident:
		return f.Name
	case *ast.SelectorExpr:
		return f.Sel.Name
	}
	return ""
}

var (
	containers = []string{"Describe", "Context", "When", "DescribeTable", "DescribeTableSubtree"}
	leaves     = []string{"It", "Specify", "Entry"}
	setups     = []string{"BeforeSuite", "AfterSuite"}
)

// isTest reports whether a statement is a container, a spec or a subtest.
func isTest(call *ast.CallExpr) bool {
	name := strings.TrimLeft(called(call), "FPX")
	return slices.Contains(containers, name) || slices.Contains(leaves, name) || isSubtest(call)
}

func isSubtest(call *ast.CallExpr) bool {
	if called(call) != "Run" || len(call.Args) != 2 {
		return false
	}
	_, ok := call.Args[1].(*ast.FuncLit)
	return ok
}

// declared returns the names that a node declares at package level.
func declared(n ast.Node) (names []string) {
	switch n := n.(type) {
	case *ast.FuncDecl:
		names = append(names, n.Name.Name)
	case *ast.TypeSpec:
		names = append(names, n.Name.Name)
	case *ast.ValueSpec:
		for _, name := range n.Names {
			names = append(names, name.Name)
		}
	case *ast.GenDecl:
		for _, spec := range n.Specs {
			names = append(names, declared(spec)...)
		}
	}
	return names
}

// specsIn returns the names of the specs and tests in a node, as far as the source shows them. Specs of tables have the
// names of their entries. path contains the enclosing containers.
func specsIn(fset *token.FileSet, file string, path []ast.Node, n ast.Node) (specs []string) {
	var texts []string
	for _, around := range path {
		if call, ok := around.(*ast.CallExpr); ok && around.Pos() < n.Pos() && isTest(call) {
			texts = append(texts, text(call))
		}
	}
	var stack []bool
	add := func(pos token.Pos, texts ...string) {
		specs = append(specs, fmt.Sprintf("%s:%d %s", file, fset.Position(pos).Line, strings.Join(texts, " ")))
	}
	ast.Inspect(n, func(n ast.Node) bool {
		if n == nil {
			if stack[len(stack)-1] {
				texts = texts[:len(texts)-1]
			}
			stack = stack[:len(stack)-1]
			return false
		}
		named := false
		switch n := n.(type) {
		case *ast.FuncDecl:
			if n.Recv == nil && strings.HasPrefix(n.Name.Name, "Test") && !gotest.RunsSpecs(n) {
				add(n.Pos(), n.Name.Name)
			}
		case *ast.CallExpr:
			if isTest(n) {
				named = true
				texts = append(texts, text(n))
				if slices.Contains(leaves, strings.TrimLeft(called(n), "FPX")) {
					add(n.Pos(), texts...)
				}
			}
		}
		stack = append(stack, named)
		return true
	})
	return specs
}

// text is the first argument of a container or spec.
func text(call *ast.CallExpr) string {
	if len(call.Args) > 0 {
		if literal, ok := call.Args[0].(*ast.BasicLit); ok && literal.Kind == token.STRING {
			if s, err := strconv.Unquote(literal.Value); err == nil {
				return s
			}
		}
	}
	return "…"
}
