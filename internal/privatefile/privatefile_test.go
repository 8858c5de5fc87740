package privatefile

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// text returns a function that writes a text.
func text(s string) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := io.WriteString(w, s)
		return err
	}
}

// names returns the names in a directory.
func names(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return strings.Join(names, " ")
}

func TestReplace(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	if err := os.WriteFile(path, []byte("something long"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := Write(path, text("new")); err != nil {
		t.Fatal(err)
	}
	info, err := os.Lstat(path)
	if err != nil || info.Mode() != 0o600 {
		t.Errorf("mode %v, %v; want 0600", info.Mode(), err)
	}
	failure := errors.New("failure")
	if err := Write(path, func(w io.Writer) error { return errors.Join(text("half")(w), failure) }); !errors.Is(err, failure) {
		t.Errorf("error %v", err)
	}
	if got, err := os.ReadFile(path); string(got) != "new" {
		t.Errorf("the file has %q, %v", got, err)
	}
	if got := names(t, dir); got != "file" {
		t.Errorf("the directory has %s", got)
	}
}

// TestLinks writes through symbolic links, also to a file that does not exist.
func TestLinks(t *testing.T) {
	dir := t.TempDir()
	for _, sub := range []string{"a/b", "c"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for link, target := range map[string]string{
		"first": "second", "second": "c/file", // a chain with relative targets
		"c/up": "../a/b", "through": "c/up/../file", // a/file, not c/file
		"loop": "loop",
	} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			t.Skip(err)
		}
	}
	for link, target := range map[string]string{"first": "c/file", "through": "a/file"} {
		for _, content := range []string{"one", "two"} {
			if err := Write(filepath.Join(dir, link), text(content)); err != nil {
				t.Fatal(err)
			}
			if got, err := os.ReadFile(filepath.Join(dir, target)); string(got) != content {
				t.Errorf("%s has %q, %v", target, got, err)
			}
		}
		if info, err := os.Lstat(filepath.Join(dir, link)); err != nil || info.Mode().Type() != fs.ModeSymlink {
			t.Errorf("%s is no link any more: %v, %v", link, info.Mode(), err)
		}
	}
	if err := Write(filepath.Join(dir, "loop"), text("x")); err == nil {
		t.Error("no error with a loop")
	}
}

// TestErrors has errors that name the path that the caller has named.
func TestErrors(t *testing.T) {
	dir := t.TempDir()
	for path, want := range map[string]string{
		dir:                                "is a directory",
		filepath.Join(dir, "none", "file"): "no such file or directory",
	} {
		err := Write(path, func(io.Writer) error { t.Error("called"); return nil })
		if err == nil || !strings.Contains(err.Error(), path+": "+want) {
			t.Errorf("%s: %v", path, err)
		}
	}
	if got := names(t, dir); got != "" {
		t.Errorf("the directory has %s", got)
	}
}
