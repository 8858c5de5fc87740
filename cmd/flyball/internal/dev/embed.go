package dev

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"path"
	"path/filepath"
	"strings"
	"sync"

	"flyball.dev/cmd/flyball/internal/process"
)

// embedded tracks the files that go:embed directives of the project name, because the operator depends on them. It is
// safe for concurrent use.
type embedded struct {
	mu       sync.Mutex
	packages []embedding
}

// embedding lists the embedded files of a package, with paths relative to its folder.
type embedding struct {
	Dir                       string
	EmbedPatterns, EmbedFiles []string
}

// update lists the embedded files, and returns their paths.
func (e *embedded) update(ctx context.Context) ([]string, error) {
	// Without the dependencies of packages, this takes hardly any time.
	cmd := process.Command(ctx, "go", "list", "-e", "-find", clusterTags, "-json=Dir,EmbedPatterns,EmbedFiles", "./...")
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	var packages []embedding
	var files []string
	decoder := json.NewDecoder(pipe)
	for {
		var p embedding
		if err = decoder.Decode(&p); err != nil {
			break
		}
		if len(p.EmbedPatterns) == 0 {
			continue
		}
		packages = append(packages, p)
		for _, file := range p.EmbedFiles {
			files = append(files, filepath.Join(p.Dir, filepath.FromSlash(file)))
		}
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	if err := errors.Join(err, cmd.Wait()); err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.packages = packages
	return files, nil
}

// contains reports whether a file is embedded, or would be if it existed.
func (e *embedded) contains(file string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, p := range e.packages {
		rel, err := filepath.Rel(p.Dir, file)
		if err != nil || !filepath.IsLocal(rel) {
			continue
		}
		// A pattern matches the file, or a folder that contains it.
		for name := filepath.ToSlash(rel); name != "."; name = path.Dir(name) {
			for _, pattern := range p.EmbedPatterns {
				pattern = strings.TrimPrefix(pattern, "all:")
				if ok, _ := path.Match(pattern, name); ok || pattern == "." { // go list has checked the pattern
					return true
				}
			}
		}
	}
	return false
}
