// Package filetx changes several files in one transaction: either all of them change, or none does.
package filetx

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// Change is a change of one file.
type Change struct {
	// Path is the path of the file. If it is a symbolic link, the target changes; Remove removes the link.
	Path string
	// Content is the new content.
	Content []byte
	// Remove removes the file.
	Remove bool
	// Keep does not change the file. If a later step changes the file and the transaction fails, the file is restored.
	Keep bool
}

// transaction holds the state that a failed commit restores.
type transaction struct {
	files     []file
	folders   []string // that were created, the outermost first
	temporary []string
}

// file is the state of a file before the transaction.
type file struct {
	path    string
	exists  bool
	link    string // the target of a symbolic link that is removed
	content []byte
	mode    fs.FileMode
}

// Commit makes the changes, and then calls the functions. If one of these steps fails, Commit restores the files,
// removes the directories that it has created, and returns the error. Each file is replaced atomically: a reader finds
// either its old or its new content. Failures for lack of permission or space happen before the first file is replaced.
func Commit(changes []Change, then ...func() error) error {
	var t transaction
	err := t.run(changes, then)
	for _, name := range t.temporary {
		if e := os.Remove(name); e != nil && !errors.Is(e, fs.ErrNotExist) && err == nil {
			err = e
		}
	}
	if err == nil {
		return nil
	}
	if e := t.restore(); e != nil {
		return fmt.Errorf("%w; and it cannot be undone: %w", err, e)
	}
	return err
}

// run makes the changes and calls the functions, until one fails.
func (t *transaction) run(changes []Change, then []func() error) error {
	prepared := make([]string, len(changes))
	for i, c := range changes {
		f, err := read(c)
		if err != nil {
			return err
		}
		t.files = append(t.files, f)
		if c.Remove || c.Keep {
			continue
		}
		if err := t.mkdir(filepath.Dir(f.path)); err != nil {
			return err
		}
		prepared[i] = temporaryName(f.path)
		t.temporary = append(t.temporary, prepared[i])
		if err := write(prepared[i], c.Content, f); err != nil {
			return err
		}
	}
	for i, c := range changes {
		var err error
		switch {
		case c.Keep:
		case c.Remove:
			err = os.Remove(t.files[i].path)
		default:
			err = os.Rename(prepared[i], t.files[i].path)
		}
		if err != nil {
			return err
		}
	}
	for _, f := range then {
		if err := f(); err != nil {
			return err
		}
	}
	return nil
}

// restore restores the files and directories.
func (t *transaction) restore() error {
	var errs []error
	for _, folder := range t.folders {
		errs = append(errs, os.RemoveAll(folder))
	}
	for _, f := range t.files {
		now, err := read(Change{Path: f.path, Remove: f.link != ""})
		switch {
		case err != nil:
			errs = append(errs, err)
		case now.exists && !f.exists:
			errs = append(errs, os.Remove(f.path))
		case f.link != "":
			if !now.exists {
				errs = append(errs, os.Symlink(f.link, f.path))
			}
		case f.exists && (!now.exists || !bytes.Equal(now.content, f.content)):
			name := temporaryName(f.path)
			if err = write(name, f.content, f); err == nil {
				err = os.Rename(name, f.path)
			}
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// mkdir creates a directory and its parents.
func (t *transaction) mkdir(folder string) error {
	var missing []string
	for at := folder; ; at = filepath.Dir(at) {
		if _, err := os.Stat(at); !errors.Is(err, fs.ErrNotExist) || at == filepath.Dir(at) {
			break
		}
		missing = append(missing, at)
	}
	for _, at := range slices.Backward(missing) {
		if err := os.Mkdir(at, 0o777); err != nil {
			return err
		}
		t.folders = append(t.folders, at)
	}
	return nil
}

// read reads the file that a change is about. The file need not exist.
func read(c Change) (file, error) {
	f := file{path: c.Path}
	if c.Remove {
		if link, err := os.Readlink(c.Path); err == nil {
			f.exists, f.link = true, link
			return f, nil
		}
	}
	real, err := filepath.EvalSymlinks(c.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return f, nil
	}
	if err != nil {
		return f, err
	}
	f.path, f.exists = real, true
	info, err := os.Stat(real)
	if err != nil {
		return f, err
	}
	f.mode = info.Mode().Perm()
	f.content, err = os.ReadFile(real)
	return f, err
}

// write writes a temporary file with the mode of f, which it will replace.
func write(name string, content []byte, f file) error {
	if err := os.WriteFile(name, content, 0o666); err != nil {
		return err
	}
	if !f.exists {
		return nil
	}
	return os.Chmod(name, f.mode)
}

// temporaryName returns the name for a temporary file that will replace another. It starts with a dot, so that the go
// command ignores it.
func temporaryName(path string) string {
	folder, base := filepath.Split(path)
	return filepath.Join(folder, fmt.Sprintf(".%s.%d.tmp", base, os.Getpid()))
}
