package generate

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"flyball.dev/cmd/flyball/internal/projectfile"
)

// boilerplate is where Kubebuilder keeps the header of generated Go files.
const boilerplate = "hack/boilerplate.go.txt"

// projectGenerators returns the generators, with their options, that the Makefile of a project
// in Kubebuilder's layout runs, and the one for apply configurations, which does something only in
// packages with the marker +kubebuilder:ac:generate=true.
func projectGenerators(dir string) ([]string, error) {
	if !IsProject(dir) {
		return nil, notProject(dir)
	}
	header := ""
	if _, err := os.Stat(filepath.Join(dir, boilerplate)); err == nil {
		header = ":headerFile=" + boilerplate
	} else if !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	return []string{"rbac:roleName=manager-role", "crd", "webhook", "object" + header, "applyconfiguration" + header}, nil
}

// IsProject reports whether a folder has Kubebuilder's layout.
func IsProject(dir string) bool {
	for _, name := range []string{projectfile.Name, "api", "apis", "internal/controller", "controllers", "internal/webhook"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			return true
		}
	}
	return false
}

// notProject returns the error for a folder without Kubebuilder's layout.
func notProject(dir string) error {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	for parent := filepath.Dir(abs); parent != filepath.Dir(parent); parent = filepath.Dir(parent) {
		if _, err := os.Stat(filepath.Join(parent, projectfile.Name)); err == nil {
			return fmt.Errorf("%s is not the folder of a project, but %s is: run it there, or say what to generate, "+
				"as in \"flyball generate object crd paths=./...\"", abs, parent)
		}
	}
	return fmt.Errorf("%s is not the folder of a project in Kubebuilder's layout: there is no PROJECT, api, apis, "+
		"internal/controller or internal/webhook; say what to generate, as in \"flyball generate object crd paths=./...\"", abs)
}

func sortedKeys[V any](m map[string]V) []string {
	return slices.Sorted(maps.Keys(m))
}
