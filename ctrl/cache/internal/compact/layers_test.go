package compact

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"
)

// layers are the files from the bottom to the top. A file refers to its own declarations and to the
// ones of files above it in the list. The files of one entry may refer to each other.
var layers = [][]string{
	{"sketch.go"},
	{"encode.go"},
	{"value.go", "decode.go"},
	{"codec.go"},
	{"scalar.go"},
	{"fields_byte.go", "fields_string.go"},
	{"special.go", "quantity.go"},
	{"subtree.go"},
	{"struct.go"},
	{"maps.go"},
	{"any.go"},
	{"prototype.go"},
	{"builder.go"},
	{"admission.go", "write.go"},
	{"view.go"},
	{"packer.go"},
	{"compact.go"},
}

func layerOf(file string) int {
	return slices.IndexFunc(layers, func(l []string) bool { return slices.Contains(l, file) })
}

// parse returns the files of the package in a directory, without tests.
func parse(t *testing.T, dir string) (*token.FileSet, map[string]*ast.File) {
	t.Helper()
	fset := token.NewFileSet()
	//lint:ignore SA1019 build constraints do not matter here
	packages, err := parser.ParseDir(fset, dir, func(f fs.FileInfo) bool { return !strings.HasSuffix(f.Name(), "_test.go") },
		parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]*ast.File{}
	for _, p := range packages {
		for name, f := range p.Files {
			files[strings.TrimPrefix(name, dir+"/")] = f
		}
	}
	if len(files) == 0 {
		t.Fatal("no file was found")
	}
	return fset, files
}

// emptyImporter imports empty packages, as only references within this package matter.
type emptyImporter struct{}

func (emptyImporter) Import(path string) (*types.Package, error) {
	p := types.NewPackage(path, path[strings.LastIndex(path, "/")+1:])
	p.MarkComplete()
	return p, nil
}

// TestLayers checks that references between files go downward.
func TestLayers(t *testing.T) {
	fset, files := parse(t, ".")
	for name := range files {
		if layerOf(name) < 0 {
			t.Errorf("%s is in no layer", name)
		}
	}
	info := types.Info{Uses: map[*ast.Ident]types.Object{}}
	config := types.Config{Importer: emptyImporter{}, Error: func(error) {}} // imports are missing
	pkg, _ := config.Check("compact", fset, slices.Collect(maps.Values(files)), &info)
	references := 0
	for id, object := range info.Uses {
		if object.Pkg() != pkg || !object.Pos().IsValid() {
			continue
		}
		from, to := fset.Position(id.Pos()), fset.Position(object.Pos())
		if from.Filename != to.Filename {
			references++
		}
		if layerOf(to.Filename) > layerOf(from.Filename) {
			t.Errorf("%s refers to %s of %s, a higher layer", from, object.Name(), to.Filename)
		}
	}
	if references < 100 {
		t.Errorf("only %d references were found", references)
	}
}

// TestUnsafe checks that the comment of each function that uses unsafe, or of its type, says on what
// the function relies.
func TestUnsafe(t *testing.T) {
	for _, dir := range []string{".", "arena", "intern"} {
		fset, files := parse(t, dir)
		stated := map[string]bool{}
		for _, f := range files {
			for _, d := range f.Decls {
				if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.TYPE && strings.Contains(g.Doc.Text(), "Unsafe: ") {
					for _, s := range g.Specs {
						stated[s.(*ast.TypeSpec).Name.Name] = true
					}
				}
			}
		}
		for _, f := range files {
			for _, d := range f.Decls {
				fn, ok := d.(*ast.FuncDecl)
				if !ok || fn.Body == nil || !usesUnsafe(fn) || strings.Contains(fn.Doc.Text(), "Unsafe: ") {
					continue
				}
				if fn.Recv == nil || !stated[receiver(fn.Recv.List[0].Type)] {
					t.Errorf("%s: %s does not say what it relies on", fset.Position(fn.Pos()), fn.Name.Name)
				}
			}
		}
	}
}

func usesUnsafe(fn *ast.FuncDecl) (uses bool) {
	ast.Inspect(fn, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok {
			if id, ok := s.X.(*ast.Ident); ok && id.Name == "unsafe" {
				uses = true
			}
		}
		return !uses
	})
	return uses
}

// receiver returns the name of the type of a receiver.
func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.IndexListExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	default:
		return ""
	}
}
