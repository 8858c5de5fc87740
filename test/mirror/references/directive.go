package references

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// Directive is a reference with the declaration of ours on which it stands.
type Directive struct {
	Reference
	// File is relative to the module's root, with slashes.
	File string
	Line int
	// Name is the declaration's name.
	Name string
}

// Place returns FILE:LINE.
func (d Directive) Place() string { return fmt.Sprintf("%s:%d", d.File, d.Line) }

// Module has the directives of a module.
type Module struct {
	Directives []Directive
	// Kinds are as if each type that is described as a kind had a directive for its generated validation.
	Kinds []Directive
	// Packages has the folder of each package, and what its directives say.
	Packages map[string]*Package
}

// Package counts the directives of a package.
type Package struct {
	References int
	// None is where the package says that it mirrors nothing, or empty.
	None string
}

// Read reads the Go files of the module in a folder, other than tests, testdata and modules below it. The error has a line for each
// directive that is malformed or misplaced.
func Read(root string) (*Module, error) {
	m := &Module{Packages: map[string]*Package{}}
	var wrong []error
	err := filepath.WalkDir(root, func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if file != root && skipped(file, entry.Name()) {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
			return nil
		}
		name, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		content, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		wrong = append(wrong, m.add(filepath.ToSlash(name), content)...)
		return nil
	})
	if err != nil {
		return nil, err
	}
	for folder, p := range m.Packages {
		if p.None != "" && p.References > 0 {
			wrong = append(wrong, fmt.Errorf("%s: //upstream:none, but package %s has references", p.None, folder))
		}
	}
	return m, errors.Join(wrong...)
}

// skipped reports whether a folder has no code of the module.
func skipped(folder, name string) bool {
	if name == "testdata" || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") {
		return true
	}
	_, err := os.Stat(filepath.Join(folder, "go.mod"))
	return err == nil
}

// add adds the directives of a file, and returns an error for each that is wrong.
func (m *Module) add(name string, content []byte) []error {
	p := m.Packages[path.Dir(name)]
	if p == nil {
		p = &Package{}
		m.Packages[path.Dir(name)] = p
	}
	if !bytes.Contains(content, []byte("upstream")) && !bytes.Contains(content, []byte(kindsPackage)) {
		return nil // parsing takes long
	}
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, content, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return []error{err}
	}
	m.Kinds = append(m.Kinds, described(name, files, file)...)
	names := documented(file)
	var wrong []error
	for _, group := range file.Comments {
		for _, comment := range group.List {
			text, ok := strings.CutPrefix(comment.Text, "//upstream:")
			at := fmt.Sprintf("%s:%d", name, files.Position(comment.Pos()).Line)
			if !ok {
				if misspelt(comment.Text) {
					wrong = append(wrong, fmt.Errorf("%s: %s is no directive, which begins with //upstream: without a space", at, comment.Text))
				}
				continue
			}
			if text == "none" || strings.HasPrefix(text, "none ") {
				if err := p.none(at, text, file, group); err != nil {
					wrong = append(wrong, err)
				}
				continue
			}
			declaration, ok := names[group]
			if !ok {
				wrong = append(wrong, fmt.Errorf("%s: %s is not in the doc comment of a declaration", at, comment.Text))
				continue
			}
			ref, err := Parse(text)
			if err != nil {
				wrong = append(wrong, fmt.Errorf("%s: %w", at, err))
				continue
			}
			p.References++
			m.Directives = append(m.Directives, Directive{Reference: ref, File: name, Line: files.Position(comment.Pos()).Line, Name: declaration})
		}
	}
	return wrong
}

// none checks a directive that nothing is mirrored, and notes it if it is the package's.
func (p *Package) none(at, text string, file *ast.File, group *ast.CommentGroup) error {
	ofFunction := slices.ContainsFunc(file.Decls, func(d ast.Decl) bool {
		f, ok := d.(*ast.FuncDecl)
		return ok && f.Doc == group
	})
	switch {
	case group != file.Doc && !ofFunction:
		return fmt.Errorf("%s: //upstream:none is not in the comment of a package or a function", at)
	case strings.TrimSpace(strings.TrimPrefix(text, "none")) == "":
		return fmt.Errorf("%s: //upstream:none has no reason", at)
	case ofFunction && strings.Count(comments(group), "\n//upstream:") > 1:
		return fmt.Errorf("%s: //upstream:none, but the function has references", at)
	case !ofFunction:
		p.None = at
	}
	return nil
}

// comments returns the text of comments with a line break before each.
func comments(group *ast.CommentGroup) string {
	var text strings.Builder
	for _, comment := range group.List {
		text.WriteString("\n" + comment.Text)
	}
	return text.String()
}

// misspelt reports whether a comment was meant as a directive.
func misspelt(comment string) bool {
	text := strings.TrimLeft(strings.TrimPrefix(comment, "//"), " \t")
	for _, prefix := range []string{"upstream:pkg/", "upstream:plugin/", "upstream:k8s.io/", "upstream:none", "upstream: pkg/", "upstream: plugin/", "upstream: k8s.io/", "upstream: none"} {
		if strings.HasPrefix(text, prefix) {
			return true
		}
	}
	return strings.HasPrefix(comment, "//upstream ")
}

// documented returns the names of the declarations of a file by their doc comments.
func documented(file *ast.File) map[*ast.CommentGroup]string {
	names := map[*ast.CommentGroup]string{}
	for _, declaration := range file.Decls {
		switch d := declaration.(type) {
		case *ast.FuncDecl:
			names[d.Doc] = funcName(d)
		case *ast.GenDecl:
			if d.Tok == token.IMPORT {
				continue
			}
			for i, spec := range d.Specs {
				switch s := spec.(type) {
				case *ast.TypeSpec:
					names[s.Doc] = s.Name.Name
				case *ast.ValueSpec:
					names[s.Doc] = s.Names[0].Name
				}
				if i == 0 {
					names[d.Doc] = specNames(spec)[0]
				}
			}
		}
	}
	delete(names, nil)
	return names
}
