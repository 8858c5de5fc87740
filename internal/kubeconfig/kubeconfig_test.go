package kubeconfig

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestWriteMode(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "kubeconfig")
	for _, content := range []string{"first", "second"} {
		if err := Write(path, []byte(content)); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(path)
		if err != nil || string(got) != content {
			t.Fatalf("read %q, %v; want %q", got, err, content)
		}
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 {
		t.Errorf("mode is %v, want 0600", info.Mode().Perm())
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(entries) != 1 {
		t.Errorf("the directory has %v, %v; want the kubeconfig alone", entries, err)
	}
}

func TestWriteErrorHasThePath(t *testing.T) {
	directory := t.TempDir()
	blocker := filepath.Join(directory, "file")
	if err := os.WriteFile(blocker, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(blocker, "kubeconfig")
	err := Write(path, []byte("x"))
	if err == nil || !strings.Contains(err.Error(), "cannot write the kubeconfig "+path) {
		t.Errorf("error is %v, want one with the path", err)
	}
}
