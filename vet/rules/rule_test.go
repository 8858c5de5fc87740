package rules

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// TestRulesAreApart: no rule uses a declaration of another one, so that each can be read, changed and removed alone.
func TestRulesAreApart(t *testing.T) {
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	files, declared := map[string]*ast.File{}, map[string]string{}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		files[name] = f
		for declaration := range f.Scope.Objects {
			declared[declaration] = name
		}
	}
	if len(files) < 20 {
		t.Fatalf("only %d files were read", len(files))
	}
	for name, f := range files {
		for _, used := range f.Unresolved {
			if in := declared[used.Name]; in != "" && in != "rule.go" && in != name {
				t.Errorf("%s uses %s of %s: move it to package operator", name, used.Name, in)
			}
		}
	}
}
