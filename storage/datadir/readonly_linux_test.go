package datadir

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"flyball.dev/storage"
)

// TestCheckReadOnly checks a directory as a user who may only read it, with and without the lock file, and with damage.
func TestCheckReadOnly(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	s := openDir(t, dir, Options{})
	put(t, s, storage.Write{Key: "/k"})
	closeStore(t, s)
	name := filepath.Join(dir, fileName(logPrefix, 2))
	for _, step := range []struct {
		name    string
		change  func() error
		damaged bool
	}{
		{"with the lock file", func() error { return nil }, false},
		{"without the lock file", func() error { return os.Remove(filepath.Join(dir, lockFile)) }, false},
		{"damaged", func() error { return os.Truncate(name, 100) }, true},
	} {
		if err := step.change(); err != nil {
			t.Fatal(err)
		}
		before, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		var damage *DamageError
		report, err := readOnly(t, dir, Check)
		if errors.As(err, &damage) != step.damaged || !step.damaged && (err != nil || report.Records != 1) {
			t.Errorf("%s: %+v, %v", step.name, report, err)
		}
		if _, err := readOnly(t, dir, Repair); !errors.Is(err, os.ErrPermission) {
			t.Errorf("%s: a repair: %v", step.name, err)
		}
		if after, err := os.ReadDir(dir); err != nil || len(after) != len(before) {
			t.Errorf("%s: the directory has %v, and had %v", step.name, after, before)
		}
	}
}

// readOnly calls f as a user who may only read a directory. It runs on a thread of its own, which ends.
func readOnly(t *testing.T, dir string, f func(string) (Report, error)) (report Report, err error) {
	t.Helper()
	chmod(t, dir, 0o555, 0o444)
	defer chmod(t, dir, 0o755, 0o644)
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // without UnlockOSThread, so that the thread ends
		if os.Geteuid() == 0 {
			const nobody = 65534
			if err = syscall.Setfsuid(nobody); err != nil {
				return
			}
		}
		report, err = f(dir)
	}()
	<-done
	return report, err
}

// chmod changes the mode of a directory and its files.
func chmod(t *testing.T, dir string, mode, files os.FileMode) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if err := os.Chmod(filepath.Join(dir, e.Name()), files); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(dir, mode); err != nil {
		t.Fatal(err)
	}
}
