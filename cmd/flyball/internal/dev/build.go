package dev

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"

	"flyball.dev/cmd/flyball/internal/generate"
	"flyball.dev/cmd/flyball/internal/process"
)

// mainPackage returns the main package of the project in the current folder: ./cmd, the folder itself, or the only main
// package below ./cmd.
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

// clusterTags are the build tags that exclude the control plane of a project made by flyball init, so that only the
// operator is linked.
const clusterTags = "-tags=nocontrolplane"

// build builds a program without debug information, like "go run". If the build fails, it returns the compiler's
// output. Overlay is the file for go build -overlay, or empty.
func build(ctx context.Context, pkg, overlay, output string, log *buildLog) error {
	log.reset()
	cmd := process.Command(ctx, "go", "build", "-v", clusterTags, "-overlay="+overlay, "-ldflags=-s -w", "-o", output, pkg)
	if os.Getenv("GOTMPDIR") == "" {
		// An interrupted build leaves its folder go-build* behind, which goes with the program's folder.
		cmd.Env = append(os.Environ(), "GOTMPDIR="+filepath.Dir(output))
	}
	cmd.Stdout, cmd.Stderr = log, log
	err := cmd.Run()
	printed := log.errors()
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err == nil:
		return nil
	case printed == "":
		return fmt.Errorf("go build: %w", err)
	}
	return errors.New(printed)
}

// buildLog collects the output of "go build -v": the packages that it compiles, the modules that it downloads, and
// errors. It is safe for concurrent use.
type buildLog struct {
	mu          sync.Mutex
	compiled    int
	downloading string
	printed     strings.Builder // all else
	rest        []byte          // of a line that has no end yet
}

var (
	compiledPackage = regexp.MustCompile(`^[\w.~/+@-]+$`)
	downloaded      = regexp.MustCompile(`^go: downloading (.*)$`)
)

// Write adds lines to the log.
func (l *buildLog) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rest = append(l.rest, b...)
	for {
		line, after, ok := bytes.Cut(l.rest, []byte("\n"))
		if !ok {
			return len(b), nil
		}
		l.rest = after
		if download := downloaded.FindSubmatch(line); download != nil {
			l.downloading = string(download[1])
		} else if compiledPackage.Match(line) {
			l.compiled++
		} else {
			l.printed.Write(append(line, '\n'))
		}
	}
}

// reset begins the log of another build.
func (l *buildLog) reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.compiled, l.downloading, l.rest = 0, "", nil
	l.printed.Reset()
}

// errors returns the lines that are not the name of a package or a module.
func (l *buildLog) errors() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.TrimSpace(l.printed.String() + string(l.rest))
}

// String describes the progress of the build.
func (l *buildLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.compiled == 1:
		return "generating and building, with 1 package compiled"
	case l.compiled > 1:
		return fmt.Sprintf("generating and building, with %d packages compiled", l.compiled)
	case l.downloading != "":
		return "downloading modules, the last one " + l.downloading
	}
	return "generating and building"
}
