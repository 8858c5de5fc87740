package generate

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"

	"flyball.dev/cmd/flyball/internal/filetx"
)

// State is the state of a file after a run.
type State string

// The states of files. Only Options.Prune removes stale files.
const (
	Created   State = "created"
	Updated   State = "updated"
	Unchanged State = "unchanged"
	Stale     State = "stale"
	Removed   State = "removed"
)

// File is a generated file.
type File struct {
	// Path is relative to the current folder, if the file is below it.
	Path string
	// State is the state of the file after the run.
	State State
	// Line is the first line that differs, for a file that is Updated.
	Line int

	path string // absolute, without symbolic links
	new  []byte
}

// compare compares generated content with the existing file.
func compare(path string, content []byte) (File, error) {
	resolved, err := resolve(path)
	if err != nil {
		return File{}, err
	}
	file := File{Path: relative(path), State: Created, path: resolved, new: content}
	old, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return file, nil
	}
	if err != nil {
		return file, err
	}
	file.State = Unchanged
	if !sameGenerated(old, content) {
		file.State, file.Line = Updated, firstDifference(old, content)
	}
	return file, nil
}

// resolve returns an absolute path without symbolic links for a path that need not exist.
func resolve(path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	resolved, err := filepath.EvalSymlinks(abs)
	if dir := filepath.Dir(abs); errors.Is(err, fs.ErrNotExist) && dir != abs {
		if dir, err = resolve(dir); err == nil {
			resolved = filepath.Join(dir, filepath.Base(abs))
		}
	}
	return resolved, err
}

// versionLine matches the line of a definition with the version of the generator.
var versionLine = regexp.MustCompile(`(?m)^    ` + regexp.QuoteMeta(versionAnnotation) + `: .*\n`)

// sameGenerated reports whether a file has the given content, ignoring the version of the generator and the line
// endings. A different version alone is no reason to change a file, and git may convert the line endings of the file or
// of the header that the content begins with.
func sameGenerated(file, content []byte) bool {
	return bytes.Equal(withoutVersion(file), withoutVersion(content))
}

// withoutVersion returns generated content with Unix line endings and without the version of the generator.
func withoutVersion(content []byte) []byte {
	return versionLine.ReplaceAll(bytes.ReplaceAll(content, []byte("\r\n"), []byte("\n")), nil)
}

// firstDifference returns the number of the first line that differs between two texts.
func firstDifference(a, b []byte) int {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return 1 + bytes.Count(a[:n], []byte("\n"))
}

// write writes the files: all of them, or none after an error.
func write(files []File, prune bool) error {
	var changes []filetx.Change
	for i, file := range files {
		switch {
		case file.State == Created || file.State == Updated:
			changes = append(changes, filetx.Change{Path: file.path, Content: file.new})
		case file.State == Stale && prune:
			files[i].State = Removed
			changes = append(changes, filetx.Change{Path: file.path, Remove: true})
		}
	}
	if err := filetx.Commit(changes); err != nil {
		return fmt.Errorf("nothing is written: %w", err)
	}
	return nil
}
