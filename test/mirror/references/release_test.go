package references

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"

	_ "flyball.dev/internal/orphans"
)

// TestDownloadNewer checks that the source of a module is read that needs a newer Go, as a coming release of Kubernetes may.
func TestDownloadNewer(t *testing.T) {
	m := module.Version{Path: "example.com/newer", Version: "v1.0.0"}
	proxy := filepath.Join(t.TempDir(), filepath.FromSlash(m.Path), "@v")
	if err := os.MkdirAll(proxy, 0o755); err != nil {
		t.Fatal(err)
	}
	source := t.TempDir()
	requirements := fmt.Sprintf("module %s\n\ngo 1.999.0\n", m.Path)
	for file, content := range map[string]string{
		filepath.Join(source, "go.mod"):         requirements,
		filepath.Join(source, "a.go"):           "package newer\n",
		filepath.Join(proxy, m.Version+".mod"):  requirements,
		filepath.Join(proxy, m.Version+".info"): fmt.Sprintf(`{"Version": %q}`, m.Version),
		filepath.Join(proxy, "list"):            m.Version + "\n",
	} {
		if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	archive, err := os.Create(filepath.Join(proxy, m.Version+".zip"))
	if err != nil {
		t.Fatal(err)
	}
	if err := zip.CreateFromDir(archive, m, source); err != nil {
		t.Fatal(err)
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	cache := t.TempDir()
	t.Cleanup(func() { makeWritable(cache) })
	for name, value := range map[string]string{
		"GOMODCACHE": cache, "GOPROXY": "file://" + filepath.ToSlash(filepath.Join(proxy, "../../..")),
		"GOSUMDB": "off", "GOTOOLCHAIN": "local", "GOFLAGS": "",
	} {
		t.Setenv(name, value)
	}
	dir, err := download(cache, m, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "a.go")); err != nil {
		t.Error(err)
	}
}

// makeWritable lets a module cache be removed.
func makeWritable(cache string) {
	_ = filepath.WalkDir(cache, func(file string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() {
			err = os.Chmod(file, 0o755)
		}
		return err
	})
}
