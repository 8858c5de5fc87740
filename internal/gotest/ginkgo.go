package gotest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
)

// SuiteTests returns the names of the tests in a Go file that run the specs of its package.
func SuiteTests(content []byte) ([]string, error) {
	file, err := parser.ParseFile(token.NewFileSet(), "", content, 0)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, declaration := range file.Decls {
		if f, ok := declaration.(*ast.FuncDecl); ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Test") && RunsSpecs(f) {
			names = append(names, f.Name.Name)
		}
	}
	return names, nil
}

// RunsSpecs reports whether a function calls Ginkgo's RunSpecs.
func RunsSpecs(f *ast.FuncDecl) (found bool) {
	ast.Inspect(f, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok {
			switch fun := call.Fun.(type) {
			case *ast.Ident:
				found = found || fun.Name == "RunSpecs"
			case *ast.SelectorExpr:
				found = found || fun.Sel.Name == "RunSpecs"
			}
		}
		return !found
	})
	return found
}

// spec is a report entry of Ginkgo for a spec, or for a node such as BeforeSuite.
type spec struct {
	ContainerHierarchyTexts []string
	LeafNodeType            string
	LeafNodeText            string
	LeafNodeLocation        struct {
		FileName   string
		LineNumber int
	}
	State   string
	Failure struct{ Message string }
}

func (s spec) name(folder string) string {
	text := OneLine(strings.Join(append(s.ContainerHierarchyTexts, s.LeafNodeText), " "))
	name := fmt.Sprintf("%s/%s:%d %s", folder, filepath.Base(s.LeafNodeLocation.FileName), s.LeafNodeLocation.LineNumber, text)
	if s.LeafNodeType != "It" {
		name += s.LeafNodeType
	}
	return name
}

func (s spec) failure() string {
	switch {
	case s.LeafNodeType != "It":
		return tail(s.Failure.Message)
	case s.State == "passed", s.State == "pending", s.State == "skipped" && s.Failure.Message != "":
		return ""
	}
	return s.State + "\n" + tail(s.Failure.Message)
}

// OneLine replaces all white space by single blanks, as in the names of specs.
func OneLine(s string) string {
	return strings.Join(strings.Fields(s), " ")
}
