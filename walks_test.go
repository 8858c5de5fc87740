package flyball_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestWalks checks that the declarations exist that ARCHITECTURE names in its walks through the code.
func TestWalks(t *testing.T) {
	text, err := os.ReadFile("ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	_, walks, _ := strings.Cut(string(text), "\n## Walks\n")
	walks, _, _ = strings.Cut(walks, "\n## ")
	known := map[string]map[string]bool{}
	found := regexp.MustCompile("`([a-z][a-z/]*)\\.([A-Za-z.]+)`").FindAllStringSubmatch(walks, -1)
	for _, m := range found {
		folder, name := m[1], m[2]
		if known[folder] == nil {
			known[folder] = declarations(t, folder)
		}
		if !known[folder][name] {
			t.Errorf("%s has no %s", folder, name)
		}
	}
	if walks := strings.Count(walks, "\n**"); walks != 6 || len(found) < 50 {
		t.Errorf("%d walks with %d names", walks, len(found))
	}
}

// declarations returns the names of the declarations of a package, its methods and its fields, such as "New" and "Store.Get".
func declarations(t *testing.T, folder string) map[string]bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range parsed.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				names[receiver(d)+d.Name.Name] = true
			case *ast.GenDecl:
				for _, s := range d.Specs {
					addSpec(names, s)
				}
			}
		}
	}
	return names
}

// addSpec adds the names of a declaration to names.
func addSpec(names map[string]bool, spec ast.Spec) {
	switch s := spec.(type) {
	case *ast.ValueSpec:
		for _, name := range s.Names {
			names[name.Name] = true
		}
	case *ast.TypeSpec:
		names[s.Name.Name] = true
		var fields *ast.FieldList
		switch d := s.Type.(type) {
		case *ast.StructType:
			fields = d.Fields
		case *ast.InterfaceType:
			fields = d.Methods
		default:
			return
		}
		for _, field := range fields.List {
			for _, name := range field.Names {
				names[s.Name.Name+"."+name.Name] = true
			}
		}
	}
}

// receiver returns the type of a method and a dot, or "" for a function.
func receiver(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return ""
	}
	name := ""
	ast.Inspect(f.Recv.List[0].Type, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && name == "" {
			name = id.Name
		}
		return name == ""
	})
	return name + "."
}
