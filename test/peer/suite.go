package peer

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"flyball.dev/internal/gotest"
)

// A suite is the tests of one package.
type suite struct {
	path   string // of the peer's package, below pkg/
	dir    string
	absent string // why none of the tests can compile, if so
	files  []*testFile
	ginkgo bool
	// excluded are the specs that do not compile, with the reason.
	excluded map[string]string
}

// A testFile is a source that is changed until it compiles. No change moves a line.
type testFile struct {
	name    string // relative to pkg/
	path    string
	content []byte
}

// integration has tests only.
const integration = "manager/internal/integration"

// suites lays the tests of every package of the peer over the copy and returns them.
func (s *scratch) suites() ([]*suite, error) {
	var all []*suite
	root := filepath.Join(s.peer, "pkg")
	err := filepath.WalkDir(root, func(dir string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return err
		}
		relative, err := filepath.Rel(root, dir)
		if err != nil {
			return err
		}
		if entry.Name() == "testdata" || relative == filepath.Join("internal", "testing") {
			return fs.SkipDir
		}
		tests, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
		if err != nil || len(tests) == 0 {
			return err
		}
		suite, err := s.suite(filepath.ToSlash(relative), tests)
		if err != nil {
			return err
		}
		all = append(all, suite)
		return nil
	})
	return all, err
}

func (s *scratch) suite(folder string, tests []string) (*suite, error) {
	u := &suite{path: folder, dir: s.target("pkg/" + folder), excluded: map[string]string{}}
	present, err := filepath.Glob(filepath.Join(u.dir, "*.go"))
	if err != nil {
		return nil, err
	}
	switch {
	case folder == integration:
		// Its tests are of exported packages.
	case slices.Contains(strings.Split(folder, "/"), "internal"):
		u.absent = "tests of a package that is internal to controller-runtime"
	case len(present) == 0:
		u.absent = "the package is still to come"
	}
	if err := os.MkdirAll(u.dir, 0o755); err != nil {
		return nil, err
	}
	// Few unexported functions are all that many tests need.
	helpers, err := filepath.Glob(filepath.Join("testdata", filepath.FromSlash(folder), "*_test.go"))
	if err != nil {
		return nil, err
	}
	for _, test := range append(tests, helpers...) {
		content, err := os.ReadFile(test)
		if err != nil {
			return nil, err
		}
		name := filepath.Base(test)
		content, err = external(rewrite(name, content), ownModule+"/ctrl/"+folder, len(present) > 0)
		if err != nil {
			return nil, err
		}
		u.files = append(u.files, &testFile{name: folder + "/" + name, path: filepath.Join(u.dir, name), content: content})
		u.ginkgo = u.ginkgo || bytes.Contains(content, []byte("RunSpecs("))
	}
	if err := u.qualify(); err != nil {
		return nil, err
	}
	testdata := "pkg/" + folder + "/testdata"
	if _, err := os.Stat(filepath.Join(s.peer, filepath.FromSlash(testdata))); errors.Is(err, fs.ErrNotExist) {
		return u, nil
	}
	return u, s.lay(testdata, func(string) bool { return true })
}

// external makes a file of package x one of package x_test that imports x with a dot, if it exists.
func external(content []byte, importPath string, exists bool) ([]byte, error) {
	file, err := parser.ParseFile(token.NewFileSet(), "", content, parser.PackageClauseOnly)
	if err != nil {
		return nil, err
	}
	if strings.HasSuffix(file.Name.Name, "_test") {
		return content, nil
	}
	clause := file.Name.Name + "_test"
	if exists {
		clause += fmt.Sprintf("; import . %q", importPath)
	}
	// Positions start at 1.
	return slices.Concat(content[:file.Name.Pos()-1], []byte(clause), content[file.Name.End()-1:]), nil
}

// qualify changes the package of the tests' own types to x_test in string literals, too, because error messages contain
// the names of types.
func (u *suite) qualify() error {
	fset := token.NewFileSet()
	var names []string
	files := make([]*ast.File, len(u.files))
	for i, f := range u.files {
		var err error
		if files[i], err = parser.ParseFile(fset, f.path, f.content, 0); err != nil {
			return err
		}
		for _, declaration := range files[i].Decls {
			if types, ok := declaration.(*ast.GenDecl); ok && types.Tok == token.TYPE {
				names = append(names, declared(types)...)
			}
		}
	}
	if len(names) == 0 {
		return nil
	}
	name := path.Base(u.path)
	qualified := regexp.MustCompile(`\b` + name + `\.(` + strings.Join(names, "|") + `)\b`)
	for i, f := range u.files {
		var literals []*ast.BasicLit
		ast.Inspect(files[i], func(n ast.Node) bool {
			if literal, ok := n.(*ast.BasicLit); ok && literal.Kind == token.STRING {
				literals = append(literals, literal)
			}
			return true
		})
		for _, literal := range slices.Backward(literals) {
			from, to := fset.Position(literal.Pos()).Offset, fset.Position(literal.End()).Offset
			replaced := qualified.ReplaceAll(f.content[from:to], []byte(name+"_test.$1"))
			f.content = slices.Concat(f.content[:from], replaced, f.content[to:])
		}
	}
	return nil
}

// imports returns the paths that the files import.
func (u *suite) imports() ([]string, error) {
	var paths []string
	for _, f := range u.files {
		file, err := parser.ParseFile(token.NewFileSet(), f.path, f.content, parser.ImportsOnly)
		if err != nil {
			return nil, err
		}
		for _, spec := range file.Imports {
			paths = append(paths, strings.Trim(spec.Path.Value, `"`))
		}
	}
	return paths, nil
}

// excludeAll excludes every spec, for one reason.
func (u *suite) excludeAll(reason string) error {
	for _, f := range u.files {
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, f.path, f.content, 0)
		if err != nil {
			return err
		}
		for _, spec := range specsIn(fset, f.name, nil, file) {
			u.excluded[spec] = reason
		}
	}
	u.files = nil
	return nil
}

// compile removes the parts of the files that do not compile, and writes the files.
func (u *suite) compile(importer types.Importer) error {
	dropped := map[string]string{} // names of removed declarations, with the reason
	for range 100 {
		failures, fset, files, err := u.check(importer)
		if err != nil {
			return err
		}
		if len(failures) == 0 {
			return u.write()
		}
		edits := map[int][]edit{}
		for _, failure := range failures {
			i := slices.IndexFunc(files, func(f *ast.File) bool {
				return f.FileStart <= failure.Pos && failure.Pos <= f.FileEnd
			})
			if i < 0 {
				return failure
			}
			reason := failure.Msg
			if known, ok := dropped[strings.TrimPrefix(reason, "undefined: ")]; ok {
				reason = known
			}
			e := repair(fset, files[i], u.files[i].name, failure)
			for _, name := range e.names {
				dropped[name] = reason
			}
			for _, spec := range e.specs {
				u.excluded[spec] = reason
			}
			edits[i] = append(edits[i], e)
		}
		for i, list := range edits {
			u.files[i].content = apply(u.files[i].content, list)
		}
	}
	return fmt.Errorf("%s does not compile after 100 changes", u.path)
}

// check type-checks the files as one package.
func (u *suite) check(
	importer types.Importer,
) (failures []types.Error, fset *token.FileSet, files []*ast.File, err error) {
	fset = token.NewFileSet()
	for _, f := range u.files {
		file, err := parser.ParseFile(fset, f.path, f.content, parser.ParseComments)
		if err != nil {
			return nil, nil, nil, err
		}
		files = append(files, file)
	}
	config := types.Config{Importer: importer, Error: func(err error) {
		if failure := err.(types.Error); failure.Msg != "" && !strings.HasPrefix(failure.Msg, "\t") {
			failures = append(failures, failure)
		}
	}}
	_, _ = config.Check(u.path+"_test", fset, files, nil) // the errors have been collected
	return failures, fset, files, nil
}

func (u *suite) write() error {
	for _, f := range u.files {
		if err := os.WriteFile(f.path, f.content, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// contains reports whether a spec is one of the package by its name.
func (u *suite) contains(spec string) bool {
	rest, ok := strings.CutPrefix(spec, u.path)
	file, _, _ := strings.Cut(strings.TrimPrefix(rest, "/"), ":")
	return ok && (strings.HasPrefix(rest, " ") || strings.HasPrefix(rest, "/") && !strings.Contains(file, "/"))
}

// runs reports whether a test is left.
func (u *suite) runs() bool {
	return slices.ContainsFunc(u.files, func(f *testFile) bool { return bytes.Contains(f.content, []byte("\nfunc Test")) })
}

// suiteTests returns the names of the tests that run Ginkgo's specs.
func (u *suite) suiteTests() (names []string, err error) {
	for _, f := range u.files {
		tests, err := gotest.SuiteTests(f.content)
		if err != nil {
			return nil, err
		}
		names = append(names, tests...)
	}
	return names, nil
}
