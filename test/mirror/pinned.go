package main

import (
	"fmt"
	"os"

	"golang.org/x/mod/modfile"

	"flyball.dev/test/mirror/references"
)

// pinned returns the release of Kubernetes that a go.mod requires.
func pinned(file string) (string, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	module, err := modfile.Parse(file, content, nil)
	if err != nil {
		return "", err
	}
	for _, required := range module.Require {
		if required.Mod.Path == references.Kubernetes {
			return required.Mod.Version, nil
		}
	}
	return "", fmt.Errorf("%s does not require %s", file, references.Kubernetes)
}
