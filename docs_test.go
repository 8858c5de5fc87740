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

// TestDeclarationDocs checks that every type, and every function of more than 25 lines, has a
// comment.
func TestDeclarationDocs(t *testing.T) {
	fset := token.NewFileSet()
	for _, p := range list(t) {
		if !within(p.ImportPath, module) {
			continue
		}
		for _, name := range p.GoFiles {
			file, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			if ast.IsGenerated(file) {
				continue
			}
			for _, declaration := range file.Decls {
				checkDoc(t, fset, declaration)
			}
		}
	}
}

func checkDoc(t *testing.T, fset *token.FileSet, declaration ast.Decl) {
	t.Helper()
	switch d := declaration.(type) {
	case *ast.FuncDecl:
		if lines := fset.Position(d.End()).Line - fset.Position(d.Pos()).Line; lines > 25 && d.Doc == nil {
			t.Errorf("%s: %s has %d lines and no comment", fset.Position(d.Pos()), d.Name, lines)
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			if s, ok := spec.(*ast.TypeSpec); ok && s.Doc == nil && s.Comment == nil && d.Doc == nil {
				t.Errorf("%s: the type %s has no comment", fset.Position(s.Pos()), s.Name)
			}
		}
	}
}
