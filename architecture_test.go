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

// TestArchitecture checks that ARCHITECTURE is a page that one reads at once, and that the files, folders and declarations exist
// that it names.
func TestArchitecture(t *testing.T) {
	page := read(t, "ARCHITECTURE.md")
	if len(page) > 16<<10 {
		t.Errorf("the page has %d bytes, and may have 16 KiB: package comments have the details", len(page))
	}
	known := map[string]map[string]bool{}
	names := 0
	for _, m := range regexp.MustCompile("`([a-z][A-Za-z0-9_./-]*)`").FindAllStringSubmatch(page, -1) {
		name := m[1]
		if first, _, _ := strings.Cut(name, "/"); strings.Contains(first, ".") && first != name && !strings.HasPrefix(first, ".") {
			continue // a package of another module
		}
		if _, err := os.Stat(name); err == nil {
			names++
			continue
		}
		slash := strings.LastIndex(name, "/") + 1
		last, declaration, ok := strings.Cut(name[slash:], ".")
		folder := name[:slash] + last
		if _, err := os.Stat(folder); !ok || err != nil {
			if slash > 0 {
				t.Errorf("there is no %s", name)
			}
			continue
		}
		names++
		if known[folder] == nil {
			known[folder] = declarations(t, folder)
		}
		if !known[folder][declaration] {
			t.Errorf("%s has no %s", folder, declaration)
		}
	}
	if names < 150 {
		t.Errorf("only %d names were found", names)
	}
}

// TestWhereTheRestIs checks that package comments have the subjects for which ARCHITECTURE refers to them.
func TestWhereTheRestIs(t *testing.T) {
	_, table, _ := strings.Cut(read(t, "ARCHITECTURE.md"), "\n## Where the rest is\n")
	table, _, _ = strings.Cut(table, "\n## ")
	rows := 0
	for line := range strings.Lines(table) {
		packages, subjects, ok := strings.Cut(strings.Trim(strings.TrimSpace(line), "| "), " | ")
		if !ok || !strings.HasPrefix(packages, "`") {
			continue
		}
		rows++
		comments := ""
		for folder := range strings.SplitSeq(packages, ", ") {
			comments += strings.ToLower(strings.Join(strings.Fields(packageDoc(t, strings.Trim(folder, "`"))), " "))
		}
		for subject := range strings.SplitSeq(subjects, ", ") {
			if !strings.Contains(comments, strings.ToLower(subject)) {
				t.Errorf("the comments of %s do not have the words %q", packages, subject)
			}
		}
	}
	if rows < 10 {
		t.Errorf("the table has %d rows", rows)
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
