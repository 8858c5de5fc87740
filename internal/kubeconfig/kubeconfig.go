// Package kubeconfig writes kubeconfig files, which hold private keys.
package kubeconfig

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// DefaultPath is where a control plane's kubeconfig goes unless the user says otherwise, relative to
// the working directory.
const DefaultPath = ".flyball/kubeconfig"

// Write puts content into the file at path, which nobody but its owner can read, and makes the folder
// if it is missing. A reader sees the old file or the new one, never a part.
func Write(path string, content []byte) error {
	if err := write(path, content); err != nil {
		var at *fs.PathError
		if errors.As(err, &at) {
			err = at.Err
		}
		return fmt.Errorf("cannot write the kubeconfig %s: %w", path, err)
	}
	return nil
}

func write(path string, content []byte) error {
	folder := filepath.Dir(path)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	temporary, err := os.CreateTemp(folder, ".kubeconfig-*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(temporary.Name())
	if _, err := temporary.Write(content); err != nil {
		temporary.Close()
		return err
	}
	if err := temporary.Close(); err != nil {
		return err
	}
	return os.Rename(temporary.Name(), path)
}
