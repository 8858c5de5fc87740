package auditlog

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// TestDevice logs to a device, by a link, which is all that a mistake could rename.
func TestDevice(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	if err := os.Symlink(os.DevNull, path); err != nil {
		t.Fatal(err)
	}
	r, err := openRotated(path, 10, 2, 1)
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		if _, err := r.Write([]byte("0123456789")); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Lstat(path); err != nil || info.Mode().Type() != fs.ModeSymlink {
		t.Errorf("the device is renamed: %v, %v", info, err)
	}
}
