package flyball_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// orphansPath is the import path of the package that ends the programs of a test.
const orphansPath = ownModule + "internal/orphans"

// ownModule precedes the folder in an import path of flyball.dev.
const ownModule = "flyball.dev/"

// starters are the packages of others that start programs for their importers.
var starters = []string{"os/exec", "golang.org/x/tools/go/packages"}

// asked are the folders with packages that start programs only for a caller who asks for it, with the reasons. TestOrphans does
// not see which of their importers ask.
var asked = map[string]string{
	"ctrl/envtest": "starts kubectl for a test that calls KubeCtl.Run",
	"lab":          "starts the test binary again with -flyball.explore; the child ends with its parent",
}

// withoutOrphans are the folders with tests that start programs and cannot import orphans, with the reasons.
var withoutOrphans = map[string]string{
	"compat/internal/generate": "is no part of flyball.dev, and only lists packages",
	"internal/orphans":         "is orphans",
	"test/oldclient":           "requires the modules of 2021, and starts flyball so that the kernel ends it",
}

// folder has the import paths of the files and of the tests in a folder.
type folder struct{ files, tests []string }

// TestOrphans checks that tests that start programs import orphans, so that no program outlives its test. Nothing else imports it.
// A package starts programs if it imports a package that does.
func TestOrphans(t *testing.T) {
	folders := readFolders(t)
	known := map[string]bool{}
	var starts func(path string) bool
	starts = func(path string) bool {
		name, own := strings.CutPrefix(path, ownModule)
		if !own {
			return slices.Contains(starters, path)
		}
		if _, ok := known[name]; !ok && folders[name] != nil {
			known[name] = asked[name] == "" && slices.ContainsFunc(folders[name].files, starts)
		}
		return known[name]
	}
	needsOrphans := func(f *folder) bool {
		return len(f.tests) > 0 && slices.ContainsFunc(slices.Concat(f.files, f.tests), starts)
	}
	guarded := func(f *folder) bool { return slices.Contains(f.tests, orphansPath) }
	for name, f := range folders {
		if slices.Contains(f.files, orphansPath) {
			t.Errorf("%s imports %s, and is no test", name, orphansPath)
		}
		if needsOrphans(f) && !guarded(f) && withoutOrphans[name] == "" {
			t.Errorf("the tests in %s start programs, and do not import %s", name, orphansPath)
		}
	}
	for name := range withoutOrphans {
		if f := folders[name]; f == nil || !needsOrphans(f) || guarded(f) {
			t.Errorf("%s needs no exception", name)
		}
	}
	for name := range asked {
		if f := folders[name]; f == nil || !slices.ContainsFunc(f.files, starts) {
			t.Errorf("%s needs no exception", name)
		}
	}
}

// readFolders returns the imports in the folders of this repository.
func readFolders(t *testing.T) map[string]*folder {
	t.Helper()
	folders := map[string]*folder{}
	err := filepath.WalkDir(".", func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && (entry.Name() == "testdata" || len(file) > 1 && strings.HasPrefix(entry.Name(), ".")) {
			return filepath.SkipDir
		}
		if filepath.Ext(file) != ".go" {
			return nil
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		name := filepath.ToSlash(filepath.Dir(file))
		if folders[name] == nil {
			folders[name] = &folder{}
		}
		to := &folders[name].files
		if strings.HasSuffix(file, "_test.go") {
			to = &folders[name].tests
		}
		for _, i := range parsed.Imports {
			path, _ := strconv.Unquote(i.Path.Value) // which the parser has checked
			*to = append(*to, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return folders
}
