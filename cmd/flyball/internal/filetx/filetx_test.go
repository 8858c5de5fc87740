package filetx

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// tree returns the files and folders below a folder, folders with a slash at the end.
func tree(t *testing.T, root string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || path == root {
			return err
		}
		name := filepath.ToSlash(strings.TrimPrefix(path, root+string(filepath.Separator)))
		if entry.IsDir() {
			found[name+"/"] = ""
			return nil
		}
		content, err := os.ReadFile(path)
		found[name] = string(content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// prepare makes a folder with files, a script and symbolic links.
func prepare(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	for name, mode := range map[string]fs.FileMode{"changed": 0o644, "removed": 0o644, "script": 0o755, "kept": 0o600, "file": 0o644} {
		if err := os.WriteFile(filepath.Join(root, name), []byte("old "+name), mode); err != nil {
			t.Fatal(err)
		}
	}
	for _, link := range []string{"link", "removedLink"} {
		if err := os.Symlink("changed", filepath.Join(root, link)); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func changesIn(root string) []Change {
	return []Change{
		{Path: filepath.Join(root, "link"), Content: []byte("new")},
		{Path: filepath.Join(root, "a", "b", "created"), Content: []byte("new")},
		{Path: filepath.Join(root, "script"), Content: []byte("new")},
		{Path: filepath.Join(root, "removed"), Remove: true},
		{Path: filepath.Join(root, "removedLink"), Remove: true},
		{Path: filepath.Join(root, "kept"), Keep: true},
	}
}

func TestCommit(t *testing.T) {
	root := prepare(t)
	if err := Commit(changesIn(root)); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"changed": "new", "link": "new", "script": "new", "kept": "old kept", "file": "old file",
		"a/": "", "a/b/": "", "a/b/created": "new"}
	if diff := cmp.Diff(want, tree(t, root)); diff != "" {
		t.Error(diff)
	}
	if target, err := os.Readlink(filepath.Join(root, "link")); err != nil || target != "changed" {
		t.Errorf("the link is to %q, %v", target, err)
	}
	if info, err := os.Stat(filepath.Join(root, "script")); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("the script has mode %v, %v", info.Mode(), err)
	}
}

// TestRollback makes each step fail, and finds everything as it was.
func TestRollback(t *testing.T) {
	failed := errors.New("failed")
	for name, commit := range map[string]func(root string) error{
		"a folder cannot be created": func(root string) error {
			return Commit(append(changesIn(root), Change{Path: filepath.Join(root, "file", "below"), Content: []byte("new")}))
		},
		"a file cannot be replaced": func(root string) error {
			return Commit(append(changesIn(root), Change{Path: filepath.Join(root, "absent"), Remove: true}))
		},
		"a function fails": func(root string) error {
			return Commit(changesIn(root), func() error {
				return errors.Join(os.WriteFile(filepath.Join(root, "kept"), []byte("new"), 0o600),
					os.WriteFile(filepath.Join(root, "a", "generated"), []byte("new"), 0o600), failed)
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			root := prepare(t)
			before := tree(t, root)
			err := commit(root)
			if err == nil || strings.Contains(err.Error(), "cannot be undone") {
				t.Errorf("error: %v", err)
			}
			if diff := cmp.Diff(before, tree(t, root)); diff != "" {
				t.Error(diff)
			}
			if target, err := os.Readlink(filepath.Join(root, "removedLink")); err != nil || target != "changed" {
				t.Errorf("the removed link is to %q, %v", target, err)
			}
		})
	}
}
