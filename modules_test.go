package flyball_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/mod/modfile"
)

// ownVersions are the modules that require other versions than the rest, with the reasons.
var ownVersions = map[string]string{
	"test/etcd/v36/go.mod":          "builds an older etcd, as it was released",
	"test/museum/rabbitmq/go.mod":   "builds an operator of 2021, as it was released",
	"test/oldclient/go.mod":         "is a client of 2021",
	"test/oracle/etcd/go.mod":       "builds etcd as it was released",
	"test/oracle/kubernetes/go.mod": "builds kube-apiserver as it was released",
}

// TestVersions checks that all modules of this repository require the same versions, so that each package is compiled once.
func TestVersions(t *testing.T) {
	files := moduleFiles(t)
	if len(files) < 15 {
		t.Fatalf("only %d modules were found", len(files))
	}
	for file := range ownVersions {
		if !slices.Contains(files, file) {
			t.Errorf("there is no %s", file)
		}
	}
	type requirement struct{ file, version string }
	first := map[string]requirement{}
	for _, file := range files {
		if ownVersions[file] != "" {
			continue
		}
		for path, version := range requirements(t, file) {
			if r, ok := first[path]; !ok {
				first[path] = requirement{file, version}
			} else if r.version != version {
				t.Errorf("%s: %s requires %s, and %s requires %s", path, file, version, r.file, r.version)
			}
		}
	}
}

// TestDependencies: go.mod says why each module is required that this one imports.
func TestDependencies(t *testing.T) {
	mod, err := modfile.Parse("go.mod", []byte(read(t, "go.mod")), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range mod.Require {
		if !r.Indirect && len(r.Syntax.Suffix) == 0 {
			t.Errorf("there is no reason for %s", r.Mod.Path)
		}
	}
}

// moduleFiles returns the files of this repository in the format of go.mod.
func moduleFiles(t *testing.T) (files []string) {
	t.Helper()
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		if entry != nil && entry.IsDir() && (entry.Name() == "testdata" || len(path) > 1 && strings.HasPrefix(entry.Name(), ".")) {
			return filepath.SkipDir
		}
		if filepath.Ext(path) == ".mod" {
			files = append(files, filepath.ToSlash(path))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// requirements returns the versions of modules that a file requires, after its replacements. Modules of this repository have
// none.
func requirements(t *testing.T, file string) map[string]string {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	mod, err := modfile.Parse(file, content, nil)
	if err != nil {
		t.Fatal(err)
	}
	versions := map[string]string{}
	for _, r := range mod.Require {
		versions[r.Mod.Path] = r.Mod.Version
	}
	for _, r := range mod.Replace {
		if _, ok := versions[r.Old.Path]; !ok {
			continue
		}
		if r.New.Version == "" {
			delete(versions, r.Old.Path) // a folder
		} else {
			versions[r.Old.Path] = r.New.Version
		}
	}
	return versions
}
