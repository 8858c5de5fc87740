package dev

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"flyball.dev/cmd/flyball/internal/generate"
	"flyball.dev/cmd/flyball/internal/process"
)

// mainPackage returns the main package of the project in the current folder: ./cmd or the folder
// itself, or the only one below ./cmd.
func mainPackage(ctx context.Context) (string, error) {
	cmd := process.Command(ctx, "go", "list", "-e", "-f", "{{if eq .Name \"main\"}}{{.Dir}}{{end}}", "./cmd/...", ".")
	out, err := cmd.Output()
	if err != nil {
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
		message := err.Error()
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			message = strings.TrimSpace(string(exit.Stderr))
		}
		return "", fmt.Errorf("cannot list the packages: %s", generate.WithHint(message))
	}
	wd, err := os.Getwd()
	if err != nil {
		return "", err
	}
	var found []string
	for line := range strings.Lines(string(out)) {
		dir, err := filepath.Rel(wd, strings.TrimSpace(line))
		if err != nil || strings.TrimSpace(line) == "" {
			continue
		}
		switch dir = filepath.ToSlash(dir); dir {
		case "cmd":
			return "./cmd", nil
		case ".":
			found = append(found, ".")
		default:
			found = append(found, "./"+dir)
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1 && found[len(found)-1] == ".":
		return ".", nil
	case len(found) > 1:
		return "", fmt.Errorf("there are several main packages, choose one with --main: %s", strings.Join(found, ", "))
	}
	return "", errors.New("there is no main package in ./cmd or in this folder; name it with --main")
}

// clusterTags are the build tags by which a project of flyball init leaves out the control plane of
// its own, so that only the operator is linked.
const clusterTags = "-tags=nocontrolplane"

// build builds a program, as "go run" does without debug information, and returns what the compiler
// prints if it fails.
func build(ctx context.Context, pkg, output string) error {
	cmd := process.Command(ctx, "go", "build", clusterTags, "-ldflags=-s -w", "-o", output, pkg)
	out, err := cmd.CombinedOutput()
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err == nil:
		return nil
	case len(out) == 0:
		return fmt.Errorf("go build: %w", err)
	}
	return errors.New(strings.TrimSpace(string(out)))
}
