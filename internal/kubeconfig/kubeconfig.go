// Package kubeconfig writes kubeconfig files, which contain private keys.
package kubeconfig

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// DefaultPath is the default path of a control plane's kubeconfig, relative to the working
// directory.
const DefaultPath = ".flyball/kubeconfig"

// Write atomically writes the file at path with mode 0600. It creates the directory if necessary.
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

// write is Write without the path in errors.
func write(path string, content []byte) error {
	directory := filepath.Dir(path)
	if err := os.MkdirAll(directory, 0o700); err != nil {
		return err
	}
	temporary, err := os.CreateTemp(directory, ".kubeconfig-*") // mode 0600
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
