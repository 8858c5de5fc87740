package references

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"strings"
)

// Long returns the functions of more than some lines that have neither a reference nor a reason for having none, by the folders of
// their packages. It reads the Go files of the module in root below a folder, as [Read] does. A package that says why it mirrors
// nothing has a reason for all, and so has a generated file.
func Long(root, folder string, lines int) (map[string][]string, error) {
	result := map[string][]string{}
	excused := map[string]bool{}
	err := filepath.WalkDir(filepath.Join(root, folder), func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if skipped(file, entry.Name()) {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
			return nil
		}
		files := token.NewFileSet()
		parsed, err := parser.ParseFile(files, file, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		pkg := path.Dir(name)
		if hasDirective(parsed.Doc) {
			excused[pkg] = true
		}
		if !ast.IsGenerated(parsed) {
			result[pkg] = append(result[pkg], longFunctions(name, files, parsed, lines)...)
		}
		return nil
	})
	for pkg, functions := range result {
		if excused[pkg] || len(functions) == 0 {
			delete(result, pkg)
		}
	}
	return result, err
}

// longFunctions returns the functions of a file that are long and have no directive.
func longFunctions(name string, files *token.FileSet, file *ast.File, lines int) []string {
	var long []string
	for _, declaration := range file.Decls {
		function, ok := declaration.(*ast.FuncDecl)
		if !ok || hasDirective(function.Doc) {
			continue
		}
		first, last := files.Position(function.Pos()).Line, files.Position(function.End()).Line
		if n := last - first + 1; n > lines {
			long = append(long, fmt.Sprintf("%s:%d %s (%d lines)", name, first, funcName(function), n))
		}
	}
	return long
}

// hasDirective reports whether a comment has a reference or a reason for having none.
func hasDirective(group *ast.CommentGroup) bool {
	return group != nil && strings.Contains(comments(group), "\n//upstream:")
}
