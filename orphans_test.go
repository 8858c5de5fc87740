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
const orphansPath = "flyball.dev/internal/orphans"

// starters are the packages that start programs for others.
var starters = []string{"os/exec", "golang.org/x/tools/go/packages", "flyball.dev/internal/gotest", "flyball.dev/cmd/flyball/internal/process",
	"flyball.dev/cmd/flyball/internal/hostprocess", "flyball.dev/cmd/flyball/internal/testproject"}

// withoutOrphans are the folders with tests that start programs and cannot import orphans, with the reasons.
var withoutOrphans = map[string]string{
	"compat/internal/generate": "is no part of flyball.dev, and only lists packages",
	"test/oldclient":           "requires the modules of 2021, and starts flyball so that the kernel ends it",
}

// TestOrphans checks that tests that start programs import orphans, so that no program outlives its test. Nothing else imports it.
func TestOrphans(t *testing.T) {
	starts, guarded, tested := map[string]bool{}, map[string]bool{}, map[string]bool{}
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
		folder, isTest := filepath.ToSlash(filepath.Dir(file)), strings.HasSuffix(file, "_test.go")
		tested[folder] = tested[folder] || isTest
		for _, i := range parsed.Imports {
			path, _ := strconv.Unquote(i.Path.Value) // which the parser has checked
			starts[folder] = starts[folder] || slices.Contains(starters, path)
			if path == orphansPath {
				guarded[folder] = true
				if !isTest {
					t.Errorf("%s imports %s, and is no test", file, path)
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for folder := range starts {
		own := folder == strings.TrimPrefix(orphansPath, "flyball.dev/")
		if starts[folder] && tested[folder] && !guarded[folder] && !own && withoutOrphans[folder] == "" {
			t.Errorf("the tests in %s start programs, and do not import %s", folder, orphansPath)
		}
	}
	for folder := range withoutOrphans {
		if !starts[folder] || guarded[folder] {
			t.Errorf("%s needs no exception", folder)
		}
	}
}
