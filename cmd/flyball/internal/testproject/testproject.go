// Package testproject creates Go modules for tests.
package testproject

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"flyball.dev/internal/testcache"
)

// New extracts a txtar archive to a temporary directory and makes it a module. The module requires this module and its
// dependencies. The directory is the working directory for the rest of the test.
func New(t *testing.T, archive string) {
	t.Helper()
	root := Root(t)
	goMod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	goSum, err := os.ReadFile(filepath.Join(root, "go.sum"))
	if err != nil {
		t.Fatal(err)
	}
	module := regexp.MustCompile(`(?m)^module .*$`).ReplaceAllString(string(goMod), "module example.com/p")
	module += "\nrequire flyball.dev v0.0.0\n\nreplace flyball.dev => " + root + "\n"
	Extract(t, archive+"-- go.mod --\n"+module+"-- go.sum --\n"+string(goSum))
}

// Root returns the folder of this module.
func Root(t *testing.T) string {
	t.Helper()
	testcache.DependsOnTree() // whoever asks runs the go command there
	out, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Dir(strings.TrimSpace(string(out)))
}

// Extract extracts a txtar archive to a temporary directory, which is the working directory for the rest of the test.
func Extract(t *testing.T, archive string) {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range txtar.Parse([]byte(archive)).Files {
		path := filepath.Join(dir, file.Name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o777), os.WriteFile(path, file.Data, 0o666)); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
}

// Files returns the content of all files below the current folder, by path.
func Files(t *testing.T) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		content, err := os.ReadFile(path)
		files[path] = string(content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}
