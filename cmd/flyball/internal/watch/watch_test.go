package watch

import (
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
