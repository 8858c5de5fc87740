package gotest

import (
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// NewScratch creates an empty temporary directory for a scratch module and returns its path. The path is the same in
// each run from one working directory, so that the build cache knows the packages. Previous content is removed. Runs
// from the same working directory must not overlap.
func NewScratch(name string) (string, error) {
	here, err := os.Getwd()
	if err != nil {
		return "", err
	}
	hash := fnv.New32()
	_, _ = hash.Write([]byte(here))
	dir := filepath.Join(os.TempDir(), fmt.Sprintf("flyball-%s-%08x", name, hash.Sum32()))
	return dir, errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o755))
}

// ModuleDir returns the directory of a module that the module in the working directory requires.
func ModuleDir(path string) (string, error) {
	dir, err := output(exec.Command("go", "list", "-m", "-f", "{{.Dir}}", path))
	return strings.TrimSpace(dir), err
}

// CopyModFile copies go.mod and go.sum from the working directory to a scratch module, and edits its go.mod with flags
// of go mod edit.
func CopyModFile(scratch string, edits ...string) error {
	for _, name := range []string{"go.mod", "go.sum"} {
		content, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(scratch, name), content, 0o644); err != nil {
			return err
		}
	}
	cmd := exec.Command("go", append([]string{"mod", "edit"}, edits...)...)
	cmd.Dir = scratch
	_, err := output(cmd)
	return err
}

// ScratchEnvironment returns the environment for commands in a scratch module. The go command may update its go.mod,
// because the main module determines which dependencies are direct.
func ScratchEnvironment() []string {
	return append(os.Environ(), "GOFLAGS="+os.Getenv("GOFLAGS")+" -mod=mod")
}

// output runs a command and returns its standard output. The error contains the standard error.
func output(cmd *exec.Cmd) (string, error) {
	out, err := cmd.Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		err = fmt.Errorf("%s: %w\n%s", cmd, err, exit.Stderr)
	}
	return string(out), err
}
