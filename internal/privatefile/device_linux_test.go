package privatefile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestPipe writes to a named pipe, which remains.
func TestPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if Replaceable(path) {
		t.Error("a pipe is replaceable")
	}
	written := make(chan error, 1)
	go func() { written <- Write(path, text("through the pipe")) }()
	if info, err := os.Lstat(path); err != nil || info.Mode().Type() != fs.ModeNamedPipe {
		t.Fatalf("%v, %v", info, err)
	}
	got, err := os.ReadFile(path)
	if string(got) != "through the pipe" {
		t.Errorf("read %q, %v", got, err)
	}
	if err := <-written; err != nil {
		t.Error(err)
	}
	if info, err := os.Lstat(path); err != nil || info.Mode().Type() != fs.ModeNamedPipe {
		t.Errorf("the pipe is replaced: %v, %v", info, err)
	}
}

// TestDevice writes to a device that is always full, by a link, which is all that a mistake could replace.
func TestDevice(t *testing.T) {
	path := filepath.Join(t.TempDir(), "full")
	if err := os.Symlink("/dev/full", path); err != nil {
		t.Fatal(err)
	}
	err := Write(path, text("x"))
	if !errors.Is(err, syscall.ENOSPC) || err.Error() != "write "+path+": no space left on device" {
		t.Errorf("error %v", err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode()&fs.ModeDevice == 0 {
		t.Errorf("the device is replaced: %v, %v", info, err)
	}
}
