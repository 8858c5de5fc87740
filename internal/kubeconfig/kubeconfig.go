// Package kubeconfig writes kubeconfig files, which contain private keys.
package kubeconfig

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"flyball.dev/internal/privatefile"
)

// DefaultPath is the default path of a control plane's kubeconfig, relative to the working
// directory.
const DefaultPath = ".flyball/kubeconfig"

// Write writes the file at path as [privatefile.Write] does. It creates the directory if necessary.
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
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return privatefile.Write(path, func(w io.Writer) error {
		_, err := w.Write(content)
		return err
	})
}
