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
	file := File{Path: relative(path), State: Created, path: path, new: content}
	old, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return file, nil
	}
	if err != nil {
		return file, err
	}
	if file.path, err = filepath.EvalSymlinks(path); err != nil {
		return file, err
	}
	file.State = Unchanged
	if !sameGenerated(old, content) {
		file.State, file.Line = Updated, firstDifference(old, content)
	}
	return file, nil
}

// versionLine matches the line of a definition with the version of the generator.
var versionLine = regexp.MustCompile(`(?m)^    ` + regexp.QuoteMeta(versionAnnotation) + `: .*\n`)

// sameGenerated reports whether a file has the given content, ignoring the version of the generator. A different
// version alone is no reason to change a file.
func sameGenerated(file, content []byte) bool {
	file = bytes.ReplaceAll(file, []byte("\r\n"), []byte("\n"))
	return sameText(versionLine.ReplaceAll(file, nil), versionLine.ReplaceAll(content, nil))
}

// sameText reports whether a file has the given content, with either Unix or Windows line endings, because git may
// convert them.
func sameText(file, content []byte) bool {
	return bytes.Equal(file, content) ||
		bytes.Equal(bytes.ReplaceAll(file, []byte("\r\n"), []byte("\n")), content)
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
