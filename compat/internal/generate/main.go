// Command generate writes the packages of this module: an alias or a forward for each exported
// identifier of each importable package of flyball.dev/ctrl. It is run in the root of the module,
// by go generate.
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	if err := write("."); err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}

// write writes the generated files below the root of this module, and removes the files of
// packages that do not exist any more.
func write(root string) error {
	files, err := generate(root)
	if err != nil {
		return err
	}
	old, err := generated(root)
	if err != nil {
		return err
	}
	for name := range old {
		if _, ok := files[name]; !ok {
			if err := os.Remove(filepath.Join(root, name)); err != nil {
				return err
			}
		}
	}
	for name, content := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, content, 0o644); err != nil {
			return err
		}
	}
	return nil
}
