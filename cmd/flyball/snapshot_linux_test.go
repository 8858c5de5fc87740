package main

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"flyball.dev/controlplane"
	"flyball.dev/storage"
	"flyball.dev/storage/snapshot"
)

// flyball runs the command, and returns what it prints to standard output and to standard error.
func flyball(t *testing.T, args ...string) (out, errs string, err error) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd := root()
	cmd.SetOut(&stdout)
	cmd.SetErr(&stderr)
	cmd.SetArgs(args)
	err = cmd.ExecuteContext(t.Context())
	return stdout.String(), stderr.String(), err
}

// running starts a control plane and returns the path of its kubeconfig.
func running(t *testing.T) string {
	t.Helper()
	admin := filepath.Join(t.TempDir(), "kubeconfig")
	plane, err := controlplane.Start(context.Background(), controlplane.Options{Listen: "127.0.0.1:0", KubeconfigFile: admin})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := plane.Stop(); err != nil {
			t.Error(err)
		}
	})
	return admin
}

// TestSnapshotFiles saves snapshots to everything that a path can be: a file, a link, a directory, a device and a pipe.
func TestSnapshotFiles(t *testing.T) {
	admin, dir := running(t), t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	save := func(name string) (out, errs string, err error) {
		return flyball(t, "snapshot", "save", path(name), "--kubeconfig", admin)
	}
	for link, target := range map[string]string{"link": "target", "full": "/dev/full"} {
		if err := os.Symlink(target, path(link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(path("pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	before := list(t, dir)

	if _, _, err := save("link"); err != nil {
		t.Error(err)
	}
	if out, _, err := flyball(t, "snapshot", "show", path("target")); err != nil || !strings.HasPrefix(out, "format 1, revision ") {
		t.Errorf("the target of the link: %q, %v", out, err)
	}

	// A full disk: here the device.
	if out, _, err := save("full"); !errors.Is(err, syscall.ENOSPC) || err.Error() != "write "+path("full")+": no space left on device" || out != "" {
		t.Errorf("a full device: %q, error %v", out, err)
	}
	if _, _, err := save("."); !errors.Is(err, syscall.EISDIR) {
		t.Errorf("a directory: error %v", err)
	}
	if _, _, err := save("none/file"); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), path("none/file")+":") {
		t.Errorf("a directory that does not exist: error %v", err)
	}

	// A pipe: the reader gets nothing but the snapshot.
	type result struct {
		out, errs string
		err       error
	}
	saved := make(chan result, 1)
	go func() {
		out, errs, err := save("pipe")
		saved <- result{out, errs, err}
	}()
	pipe, err := os.Open(path("pipe"))
	if err != nil {
		t.Fatal(err)
	}
	defer pipe.Close()
	if _, err := snapshot.Read(pipe, func(storage.Record, []byte) {}); err != nil {
		t.Errorf("from the pipe: %v", err)
	}
	if r := <-saved; r.err != nil || r.out != "" || !strings.HasPrefix(r.errs, "saved revision ") {
		t.Errorf("to the pipe: %+v", r)
	}
	if got := list(t, dir); got != before+" target -rw-------" {
		t.Errorf("the directory has %s, and had %s", got, before)
	}
}

// list returns the names and types in a directory.
func list(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, e.Name(), info.Mode().String())
	}
	return strings.Join(all, " ")
}

// TestSnapshotPipes reads snapshots from pipes that nobody writes to.
func TestSnapshotPipes(t *testing.T) {
	dir := t.TempDir()
	pipe, data := filepath.Join(dir, "pipe"), filepath.Join(dir, "data")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"snapshot", "show", pipe}, {"snapshot", "restore", pipe, "--data-dir", data},
		{"up", "--snapshot", pipe, "--kubeconfig", filepath.Join(dir, "kubeconfig")},
	} {
		if _, _, err := flyball(t, args...); !errors.Is(err, snapshot.ErrForeign) {
			t.Errorf("%q: error %v", args, err)
		}
	}
	if got := list(t, dir); got != "pipe prw-------" {
		t.Errorf("the directory has %s", got)
	}
}

// TestKubeconfigFiles writes kubeconfigs to a device, by a link, which is all that a mistake could replace.
func TestKubeconfigFiles(t *testing.T) {
	admin, file := running(t), filepath.Join(t.TempDir(), "null")
	if err := os.Symlink(os.DevNull, file); err != nil {
		t.Fatal(err)
	}
	if _, _, err := flyball(t, "kubeconfig", "--user", "ann", "--kubeconfig", admin, "--output", file); err != nil {
		t.Error(err)
	}
	plane, err := controlplane.Start(t.Context(), controlplane.Options{Listen: "127.0.0.1:0", KubeconfigFile: file, WithoutControllers: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := plane.Stop(); err != nil {
		t.Error(err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode()&fs.ModeDevice == 0 {
		t.Errorf("the device is replaced: %v, %v", info, err)
	}
}
