package flyball_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// TestPackageDocs checks that every package has one package comment, in one file, that begins as
// godoc expects.
func TestPackageDocs(t *testing.T) {
	for _, p := range list(t) {
		if !within(p.ImportPath, module) || p.ImportPath == module {
			continue
		}
		var docs []string
		for _, name := range p.GoFiles {
			file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, name), nil, parser.PackageClauseOnly|parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			if file.Doc != nil {
				docs = append(docs, name)
				checkPackageDoc(t, p, file)
			}
		}
		switch len(docs) {
		case 0:
			t.Errorf("%s has no package comment", p.ImportPath)
		case 1:
		default:
			t.Errorf("%s has a package comment in each of %s", p.ImportPath, strings.Join(docs, ", "))
		}
	}
}

func checkPackageDoc(t *testing.T, p listed, file *ast.File) {
	t.Helper()
	want := "Package " + p.Name + " "
	if p.Name == "main" {
		return
	}
	if !strings.HasPrefix(file.Doc.Text(), want) {
		t.Errorf("the comment of %s does not begin with %q", p.ImportPath, want)
	}
}
