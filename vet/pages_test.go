package vet_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

var (
	goExample = regexp.MustCompile("(?s)```go\n(.*?)```")
	// incomplete are the errors of source that is only a part of a function.
	incomplete = regexp.MustCompile(`declared and not used|imported (as \w+ )?and not used|is not used|return values|missing return|no new variables`)
)

// TestPagesCompile type-checks the Go examples of the pages, each as a part of a function after the
// declarations of testdata/prelude.go.txt.
func TestPagesCompile(t *testing.T) {
	prelude := read(t, filepath.Join("testdata", "prelude.go.txt"))
	declared, err := parser.ParseFile(token.NewFileSet(), "prelude.go", prelude, parser.ImportsOnly)
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	for _, spec := range declared.Imports {
		path, _ := strconv.Unquote(spec.Path.Value)
		paths = append(paths, path)
	}
	imports := importer{}
	for _, p := range load(t, paths...) {
		imports[p.PkgPath] = p.Types
	}
	pages, err := filepath.Glob(filepath.Join("..", "docs", "vet", "*.md"))
	if err != nil || len(pages) == 0 {
		t.Fatal(pages, err)
	}
	for _, page := range append(pages, filepath.Join("..", "docs", "development.md")) {
		for _, match := range goExample.FindAllStringSubmatch(read(t, page), -1) {
			source := strings.ReplaceAll(match[1], "...\n", "\n")
			source += strings.Repeat("}\n", strings.Count(source, "{")-strings.Count(source, "}"))
			if !strings.HasPrefix(source, "func ") {
				source = "func _() {\n" + source + "}\n"
			}
			fset := token.NewFileSet()
			file, err := parser.ParseFile(fset, "example.go", prelude+"\n//line example.go:1\n"+source, parser.SkipObjectResolution)
			if err != nil {
				t.Errorf("%s: %v in\n%s", page, err, source)
				continue
			}
			config := types.Config{Importer: imports, Error: func(err error) {
				if !incomplete.MatchString(err.Error()) {
					t.Errorf("%s: %v in\n%s", page, err, source)
				}
			}}
			_, _ = config.Check("pages", fset, []*ast.File{file}, nil) // Error has reported the mistakes
		}
	}
}
