package generate

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
)

// State is what became of a file.
type State string

// The states of files. Stale ones are removed by Options.Prune only.
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
	// State is what became of it.
	State State
	// Line is the number of the first line that differs, of a file that is Updated.
	Line int

	path     string // absolute, without symbolic links
	old, new []byte
	mode     fs.FileMode // of the file that is there
}

// compare compares a generated file with what is there.
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
	info, err := os.Stat(path)
	if err != nil {
		return file, err
	}
	file.old, file.mode, file.State = old, info.Mode().Perm(), Unchanged
	if !sameGenerated(old, content) {
		file.State, file.Line = Updated, firstDifference(old, content)
	}
	return file, nil
}

// versionLine is the line of a definition with the version of the generator.
var versionLine = regexp.MustCompile(`(?m)^    ` + regexp.QuoteMeta(versionAnnotation) + `: .*\n`)

// sameGenerated reports whether a file has some content but for the version of the generator, which
// alone is no reason to change a file that another release has written.
func sameGenerated(file, content []byte) bool {
	file = bytes.ReplaceAll(file, []byte("\r\n"), []byte("\n"))
	return sameText(versionLine.ReplaceAll(file, nil), versionLine.ReplaceAll(content, nil))
}

// sameText reports whether a file has some content, or has it with the line endings of Windows, as
// git may check it out.
func sameText(file, content []byte) bool {
	return bytes.Equal(file, content) ||
		bytes.Equal(bytes.ReplaceAll(file, []byte("\r\n"), []byte("\n")), content)
}

// firstDifference returns the number of the first line in which two texts differ.
func firstDifference(a, b []byte) int {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return 1 + bytes.Count(a[:n], []byte("\n"))
}

// write makes the folder tree as the files say: all of it, or in case of an error nothing.
// Each file is replaced at once, so that a reader finds the old or the new content.
func write(files []File, prune bool) (err error) {
	var undo []func() error
	defer func() {
		for i := len(undo) - 1; i >= 0; i-- {
			if e := undo[i](); e != nil && err != nil {
				err = fmt.Errorf("%w; and it cannot be undone: %w", err, e)
			}
		}
	}()
	// What may fail for want of permission or space is done before anything is replaced.
	temporary := make([]string, len(files))
	for i, file := range files {
		if file.State != Created && file.State != Updated {
			continue
		}
		made, err := mkdirAll(filepath.Dir(file.path))
		undo = append(undo, func() error { return removeEmpty(made) })
		if err == nil {
			temporary[i], err = writeTemporary(file.path, file.new, file.mode)
			undo = append(undo, func() error { return removeIfExists(temporary[i]) })
		}
		if err != nil {
			return fmt.Errorf("nothing is written: %w", err)
		}
	}
	for i, file := range files {
		switch {
		case temporary[i] != "":
			err = os.Rename(temporary[i], file.path)
		case file.State == Stale && prune:
			files[i].State = Removed
			err = os.Remove(file.path)
		default:
			continue
		}
		if err != nil {
			return fmt.Errorf("nothing is written: %w", err)
		}
		undo = append(undo, func() error {
			if err == nil {
				return nil
			}
			return restore(file)
		})
	}
	return nil
}

// restore makes a file what it was.
func restore(file File) error {
	if file.State == Created {
		return os.Remove(file.path)
	}
	temporary, err := writeTemporary(file.path, file.old, file.mode)
	if err != nil {
		return err
	}
	return os.Rename(temporary, file.path)
}

// writeTemporary writes a file that is to replace another. Its name starts with a dot, which the go
// command ignores. A mode of 0 is that of new files.
func writeTemporary(path string, content []byte, mode fs.FileMode) (name string, err error) {
	dir, base := filepath.Split(path)
	name = filepath.Join(dir, fmt.Sprintf(".%s.%d.tmp", base, os.Getpid()))
	if err = os.WriteFile(name, content, 0o666); err != nil {
		return name, err
	}
	if mode != 0 {
		err = os.Chmod(name, mode)
	}
	return name, err
}

// mkdirAll makes a folder and its parents, and returns those that it has made, the lowest first.
func mkdirAll(dir string) (made []string, err error) {
	for parent := dir; ; parent = filepath.Dir(parent) {
		if _, err := os.Stat(parent); err == nil || parent == filepath.Dir(parent) {
			break
		}
		made = append(made, parent)
	}
	return made, os.MkdirAll(dir, 0o777)
}

// removeEmpty removes those of some folders that are empty.
func removeEmpty(dirs []string) error {
	for _, dir := range dirs {
		if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
			continue
		}
		if err := os.Remove(dir); err != nil {
			return err
		}
	}
	return nil
}

// removeIfExists removes a file.
func removeIfExists(path string) error {
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
