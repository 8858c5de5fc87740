package main

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestAssets writes the programs, twice, after a change, and at the same time by several.
func TestAssets(t *testing.T) {
	program, dir := filepath.Join(t.TempDir(), "flyball"), filepath.Join(t.TempDir(), "new", "assets")
	write := func(content string, at time.Time) {
		t.Helper()
		if err := os.WriteFile(program, []byte(content), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(program, at, at); err != nil {
			t.Fatal(err)
		}
	}
	check := func(want string) (infos []os.FileInfo) {
		t.Helper()
		for _, name := range []string{"kube-apiserver", "etcd"} {
			content, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil || string(content) != want {
				t.Errorf("%s is %q, %v; want %q", name, content, err, want)
			}
			info, err := os.Stat(filepath.Join(dir, name))
			if err != nil || info.Mode().Perm()&0o111 != 0o111 {
				t.Errorf("%s: %v, %v", name, info.Mode(), err)
			}
			infos = append(infos, info)
		}
		return infos
	}
	now := time.Now().Truncate(time.Second)
	write("one", now)
	if err := writeAssets(program, dir); err != nil {
		t.Fatal(err)
	}
	first := check("one")
	if err := writeAssets(program, dir); err != nil {
		t.Fatal(err)
	}
	for i, info := range check("one") {
		if !os.SameFile(info, first[i]) {
			t.Errorf("%s was written again", info.Name())
		}
	}
	write("two", now.Add(time.Second))
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			if err := writeAssets(program, dir); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	check("two")
	// Archives of continuous integration lose the permission to execute.
	if err := os.Chmod(filepath.Join(dir, "etcd"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := writeAssets(program, dir); err != nil {
		t.Fatal(err)
	}
	check("two")
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") {
			t.Errorf("%s is left", e.Name())
		}
	}
}

// TestLinkKubectl installs kubectl, moves it, and removes it.
func TestLinkKubectl(t *testing.T) {
	dir, one, two := t.TempDir(), t.TempDir(), t.TempDir()
	for _, installed := range []string{one, two} {
		if err := os.WriteFile(filepath.Join(installed, "kubectl"), nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	link := filepath.Join(dir, "kubectl")
	for _, path := range []string{one, two, two, dir + string(filepath.ListSeparator) + two} {
		t.Setenv("PATH", path)
		if err := linkKubectl(dir); err != nil {
			t.Fatal(err)
		}
		want := filepath.Join(filepath.Base(path), "kubectl")
		if target, err := os.Readlink(link); err != nil || !strings.HasSuffix(target, want) {
			t.Errorf("with PATH %s: %s, %v", path, target, err)
		}
	}
	if err := os.RemoveAll(two); err != nil {
		t.Fatal(err)
	}
	if err := linkKubectl(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(link); !os.IsNotExist(err) {
		t.Errorf("the link to what is not there: %v", err)
	}
}

func TestAssetsCommand(t *testing.T) {
	occupied := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(occupied, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := root()
	cmd.SetArgs([]string{"assets", "--dir", filepath.Join(occupied, "assets")})
	if err := cmd.Execute(); err == nil || !strings.Contains(err.Error(), occupied) || !strings.Contains(err.Error(), "--dir") {
		t.Errorf("below a file: %v", err)
	}
	t.Setenv("HOME", "")
	t.Setenv("XDG_CACHE_HOME", "")
	cmd = root()
	cmd.SetArgs([]string{"assets"})
	if err := cmd.Execute(); err == nil || !strings.Contains(err.Error(), "--dir") {
		t.Errorf("without a home: %v", err)
	}
}
