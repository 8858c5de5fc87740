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

// defaultRun returns the run of the Makefile that Kubebuilder creates for a new project, with the generator for apply
// configurations added. That generator acts only on packages with the marker +kubebuilder:ac:generate=true.
func defaultRun() (invocation, error) {
	if !isProject(".") {
		return invocation{}, notProject(".")
	}
	header := ""
	if _, err := os.Stat(boilerplate); err == nil {
		header = ":headerFile=" + boilerplate
	} else if !errors.Is(err, os.ErrNotExist) {
		return invocation{}, err
	}
	return parse(".", []string{"rbac:roleName=manager-role", "crd", "webhook", "object" + header, "applyconfiguration" + header,
		"paths=./...", "output:crd:artifacts:config=config/crd/bases"})
}

// Manifests returns patterns for the definitions and webhook configurations that are generated in the current folder
// with some options, as in [Options]. If the options of the project are unknown, the patterns are Kubebuilder's default
// locations.
func Manifests(options []string) (patterns []string) {
	c, err := complete(options)
	if err != nil {
		return []string{"config/crd/bases/*.yaml", "config/webhook/manifests*.yaml"}
	}
	for _, run := range c.runs {
		for name, files := range map[string]string{"crd": "*.yaml", "webhook": "manifests*.yaml"} {
			if folder := run.manifests(name); folder != "" && !slices.Contains(patterns, folder+"/"+files) {
				patterns = append(patterns, folder+"/"+files)
			}
		}
	}
	slices.Sort(patterns) // CRDs first
	return patterns
}

// Configured reports whether there are options for generating in the current folder: the options of the project, or the
// defaults of Kubebuilder's layout. Run tells an error in the options of the project.
func Configured() bool {
	_, err := complete(nil)
	return !errors.As(err, new(notProjectError))
}

// isProject reports whether a folder has Kubebuilder's layout.
func isProject(dir string) bool {
	for _, name := range []string{projectfile.Name, "api", "apis", "internal/controller", "controllers", "internal/webhook"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			return true
		}
	}
	return false
}

// notProjectError is the error for a folder that neither is a project nor has options.
type notProjectError string

// Error implements error.
func (e notProjectError) Error() string { return string(e) }

// notProject returns the error for a folder without Kubebuilder's layout.
func notProject(dir string) error {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	for parent := filepath.Dir(abs); parent != filepath.Dir(parent); parent = filepath.Dir(parent) {
		if _, err := os.Stat(filepath.Join(parent, projectfile.Name)); err == nil {
			return notProjectError(fmt.Sprintf("%s is not the folder of a project, but %s is: run it there, or say what to generate, "+
				"as in \"flyball generate object crd paths=./...\"", abs, parent))
		}
	}
	return notProjectError(fmt.Sprintf("%s is not the folder of a project in Kubebuilder's layout: there is no PROJECT, api, apis, "+
		"internal/controller or internal/webhook; say what to generate, as in \"flyball generate object crd paths=./...\"", abs))
}

func sortedKeys[V any](m map[string]V) []string {
	return slices.Sorted(maps.Keys(m))
}
