package flyball_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"regexp"
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

var (
	// docLink is a link to a declaration, which may be unexported.
	docLink = regexp.MustCompile(`\[\*?([A-Za-z_]\w*(?:\.\w+)*)\]`)
	docTest = regexp.MustCompile(`\b((?:Test|Benchmark|Fuzz)[A-Z]\w*)\b`)
	docFile = regexp.MustCompile(`\b([a-z]\w*\.go)\b`)
)

// TestPackageDocsRefer: the declarations, tests and files that package comments name exist.
func TestPackageDocsRefer(t *testing.T) {
	packages, tests, files := list(t), declaredTests(t), map[string]bool{}
	for _, p := range packages {
		for _, name := range p.GoFiles {
			files[name] = files[name] || within(p.ImportPath, module)
		}
	}
	known := map[string]map[string]bool{}
	declares := func(dir, name string) bool {
		if known[dir] == nil {
			known[dir] = declarations(t, dir)
		}
		return known[dir][name]
	}
	references := 0
	for _, p := range packages {
		if !within(p.ImportPath, module) {
			continue
		}
		doc := prose(packageDoc(t, p.Dir))
		check := func(pattern *regexp.Regexp, exists func(name string) bool) {
			for _, m := range pattern.FindAllStringSubmatch(doc, -1) {
				if references++; !exists(m[1]) {
					t.Errorf("the comment of %s names %s, which does not exist", p.ImportPath, m[0])
				}
			}
		}
		check(docLink, func(name string) bool {
			pkg, in, _ := strings.Cut(name, ".")
			return declares(p.Dir, name) || declaredIn(p.Imports, pkg, in, declares)
		})
		check(docTest, func(name string) bool { return tests[name] })
		check(docFile, func(name string) bool { return files[name] })
	}
	if references < 200 {
		t.Errorf("only %d references were found", references)
	}
}

// declaredIn reports whether a package among imports has a declaration. Packages of other modules are taken to have it.
func declaredIn(imports []string, pkg, name string, declares func(dir, name string) bool) bool {
	for _, i := range imports {
		if path.Base(i) == pkg {
			dir, own := strings.CutPrefix(i, module+"/")
			return !own || declares(dir, name)
		}
	}
	return false
}

// packageDoc returns the comment of the package in a folder.
func packageDoc(t *testing.T, dir string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.PackageClauseOnly|parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		if file.Doc != nil {
			return file.Doc.Text()
		}
	}
	return ""
}

// prose returns a comment without its code.
func prose(doc string) string {
	var b strings.Builder
	for line := range strings.Lines(doc) {
		if !strings.HasPrefix(line, "\t") {
			b.WriteString(line)
		}
	}
	return b.String()
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
