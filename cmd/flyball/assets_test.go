package main

import (
	"bytes"
	"debug/buildinfo"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"flyball.dev/cmd/flyball/internal/help"
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
		if !os.SameFile(infos[0], infos[1]) {
			t.Error("the programs are two files")
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

// TestLinkProgram: a file system may have no links, or links that look like copies.
func TestLinkProgram(t *testing.T) {
	dir := t.TempDir()
	from, to := filepath.Join(dir, "from"), filepath.Join(dir, "to")
	if err := os.WriteFile(from, []byte("program"), 0o755); err != nil {
		t.Fatal(err)
	}
	copies := 0
	for name, link := range map[string]func(from, to string) error{
		"no links": func(string, string) error { return errors.ErrUnsupported },
		"links like copies": func(_, to string) error {
			if copies++; copies > 100 {
				return errors.New("links are made again and again")
			}
			return os.WriteFile(to, []byte("program"), 0o755)
		},
	} {
		if linkProgram(from, to, link) {
			t.Errorf("%s: a link was made", name)
		}
	}
	if copies == 0 || copies > 100 {
		t.Errorf("%d copies were made", copies)
	}
	if !linkProgram(from, to, os.Link) || !sameFile(from, to) {
		t.Error("no link was made")
	}
}

// TestWithoutSymbols runs this program without its symbols, which makes it smaller, and reads from it how
// it was built.
func TestWithoutSymbols(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := writeAssets(program, dir); err != nil {
		t.Fatal(err)
	}
	before, after := sizeOf(t, program), sizeOf(t, filepath.Join(dir, "etcd"))
	if runtime.GOOS == "linux" && after >= before {
		t.Errorf("the copy of a program of %d bytes has %d", before, after)
	}
	out, err := exec.Command(filepath.Join(dir, "etcd"), "--help").CombinedOutput()
	if err != nil || string(out) != help.Etcd {
		t.Errorf("%v: %s", err, out)
	}
	if info, err := buildinfo.ReadFile(filepath.Join(dir, "etcd")); err != nil || info.GoVersion != runtime.Version() {
		t.Errorf("built with %+v, %v", info, err)
	}
}

// TestWithoutSymbolsOfOtherFiles keeps files as they are that are no programs, or not whole.
func TestWithoutSymbolsOfOtherFiles(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range [][]byte{nil, []byte("#!/bin/sh"), content[:64], content[:len(content)/8]} {
		got, err := io.ReadAll(withoutSymbols(bytes.NewReader(file), int64(len(file))))
		if err != nil || !bytes.Equal(got, file) {
			t.Errorf("%d bytes became %d, %v", len(file), len(got), err)
		}
	}
}

func sizeOf(t *testing.T, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
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
