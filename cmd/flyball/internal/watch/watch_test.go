package watch

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestLinkedFolder: a folder that is a symbolic link is watched, with all that is below it, and the
// paths are those below the link.
func TestLinkedFolder(t *testing.T) {
	folder, link := t.TempDir(), filepath.Join(t.TempDir(), "link")
	if err := os.MkdirAll(filepath.Join(folder, "api", "v1"), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(folder, link); err != nil {
		t.Fatal(err)
	}
	w, err := New(link, func(string) bool { return true })
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	for _, path := range []string{"main.go", "api/v1/types.go"} {
		if err := os.WriteFile(filepath.Join(folder, path), nil, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{filepath.Join(link, "api/v1/types.go"), filepath.Join(link, "main.go")}
	change, err := w.Next(t.Context())
	if err != nil || !slices.Equal(change.Paths, want) {
		t.Errorf("%q, %v, and not %q", change.Paths, err, want)
	}
}

// TestInclude: files that are included matter, wherever they are.
func TestInclude(t *testing.T) {
	folder := t.TempDir()
	var files []string
	for _, name := range []string{"testdata/a", "testdata/b", ".hidden"} {
		file := filepath.Join(folder, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o777), os.WriteFile(file, nil, 0o666)); err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	w, err := New(folder, func(string) bool { return false })
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if err := w.Include([]string{files[0], files[2]}); err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if err := os.WriteFile(file, []byte("x"), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	change, err := w.Next(t.Context())
	if want := []string{files[2], files[0]}; err != nil || !slices.Equal(change.Paths, want) {
		t.Errorf("%q, %v, and not %q", change.Paths, err, want)
	}
}
