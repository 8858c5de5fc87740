package references

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/printer"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// source has the declarations of a package.
type source struct {
	// declarations has the text of each declaration by name, without comments. A name that several files declare, for
	// several architectures, has several texts.
	declarations map[string][]string
	// files has the names that each file declares.
	files map[string][]string
	// uses has what each generated validation uses; a reference to the package itself has no folder.
	uses map[string][]Reference
}

// linux selects the files of a package.
var linux = func() build.Context {
	context := build.Default
	context.GOOS, context.GOARCH, context.CgoEnabled = "linux", "amd64", false
	return context
}()

// readSource reads the package in a folder.
func readSource(folder string) (*source, error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	s := &source{declarations: map[string][]string{}, files: map[string][]string{}}
	for _, entry := range entries {
		name := entry.Name()
		if entry.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			continue
		}
		if ok, err := linux.MatchFile(folder, name); err != nil || !ok {
			continue
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, filepath.Join(folder, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		s.add(name, files, file)
		if name == generatedFile {
			s.uses = uses(file)
		}
	}
	return s, nil
}

// add adds the declarations of a file.
func (s *source) add(name string, files *token.FileSet, file *ast.File) {
	s.files[name] = []string{}
	declare := func(declared, text string) {
		s.declarations[declared] = append(s.declarations[declared], text)
		s.files[name] = append(s.files[name], declared)
	}
	for _, declaration := range file.Decls {
		switch d := declaration.(type) {
		case *ast.FuncDecl:
			declare(funcName(d), print(files, d))
		case *ast.GenDecl:
			if d.Tok == token.IMPORT {
				continue
			}
			repeated := ""
			for i, spec := range d.Specs {
				text := d.Tok.String() + " " + print(files, spec)
				if value, ok := spec.(*ast.ValueSpec); ok && d.Tok == token.CONST {
					if len(value.Values) > 0 {
						repeated = print(files, &ast.ValueSpec{Names: []*ast.Ident{ast.NewIdent("_")}, Type: value.Type, Values: value.Values})
					} else {
						text += " // as " + repeated
					}
					if strings.Contains(repeated, "iota") {
						text += fmt.Sprintf(" // iota = %d", i)
					}
				}
				for _, declared := range specNames(spec) {
					declare(declared, text)
				}
			}
		}
	}
}

// print returns the text of a node, without blank lines, which a removed comment leaves.
func print(files *token.FileSet, node any) string {
	var text bytes.Buffer
	if err := printer.Fprint(&text, files, node); err != nil {
		panic(err) // the node has been parsed
	}
	lines := slices.DeleteFunc(strings.Split(text.String(), "\n"), func(line string) bool { return strings.TrimSpace(line) == "" })
	return strings.Join(lines, "\n")
}

// names returns the names that a reference covers, sorted, or none if there is no such declaration.
func (s *source) names(ref Reference) []string {
	switch {
	case ref.File != "":
		return slices.Compact(slices.Sorted(slices.Values(s.files[ref.File])))
	case ref.Name == "":
		return slices.Sorted(maps.Keys(s.declarations))
	case s.declarations[ref.Name] == nil:
		return nil
	}
	names := []string{ref.Name}
	for name := range s.declarations {
		if strings.HasPrefix(name, ref.Name+".") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// text returns the texts of declarations.
func (s *source) text(names []string) string {
	var texts []string
	for _, name := range names {
		texts = append(texts, s.declarations[name]...)
	}
	return strings.Join(texts, "\n\n") + "\n"
}

// funcName returns the name of a function, or TYPE.METHOD.
func funcName(d *ast.FuncDecl) string {
	if d.Recv == nil || len(d.Recv.List) == 0 {
		return d.Name.Name
	}
	receiver := d.Recv.List[0].Type
	for {
		switch r := receiver.(type) {
		case *ast.StarExpr:
			receiver = r.X
		case *ast.ParenExpr:
			receiver = r.X
		case *ast.IndexExpr:
			receiver = r.X
		case *ast.IndexListExpr:
			receiver = r.X
		case *ast.Ident:
			return r.Name + "." + d.Name.Name
		default:
			return d.Name.Name
		}
	}
}

// specNames returns the names that a type, var or const declares.
func specNames(spec ast.Spec) []string {
	switch s := spec.(type) {
	case *ast.TypeSpec:
		return []string{s.Name.Name}
	case *ast.ValueSpec:
		var names []string
		for _, name := range s.Names {
			names = append(names, name.Name)
		}
		return names
	}
	return nil
}
