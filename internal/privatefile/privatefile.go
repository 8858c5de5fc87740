// Package privatefile writes files that contain private keys, at paths that users name.
package privatefile

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Write writes the file at path with the function write. The file gets mode 0600 and is replaced as a whole: readers find
// either its old or its new content, and after an error the old content remains. Write follows symbolic links. A device or
// a pipe is not replaced, but written to.
//
// Errors have path as their path, whichever file they concern, except the errors of write.
func Write(path string, write func(io.Writer) error) error {
	info, err := os.Stat(path)
	switch {
	case err == nil && info.IsDir():
		return &fs.PathError{Op: "write", Path: path, Err: syscall.EISDIR}
	case err == nil && !info.Mode().IsRegular():
		return writeTo(path, write)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return at(path, err)
	}
	return replace(path, write)
}

// Replaceable reports whether Write would replace the file at path, or create it.
func Replaceable(path string) bool {
	info, err := os.Stat(path)
	return err != nil || info.Mode().IsRegular()
}

// writeTo writes to a device or a pipe.
func writeTo(path string, write func(io.Writer) error) error {
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	err = flush(path, file, write)
	return errors.Join(err, file.Close())
}

// replace writes a temporary file and renames it.
func replace(path string, write func(io.Writer) error) error {
	target, err := follow(path)
	if err != nil {
		return err
	}
	directory, name := filepath.Split(target)
	if directory == "" {
		directory = "."
	}
	temporary, err := os.CreateTemp(directory, "."+name+"-*") // mode 0600
	if err != nil {
		return at(path, err)
	}
	defer os.Remove(temporary.Name())
	defer temporary.Close()
	if err := flush(path, temporary, write); err != nil {
		return err
	}
	if err := temporary.Sync(); err != nil {
		return at(path, err)
	}
	if err := temporary.Close(); err != nil {
		return at(path, err)
	}
	return at(path, os.Rename(temporary.Name(), target))
}

// flush calls write with a buffer of a file, and writes the buffer.
func flush(path string, file *os.File, write func(io.Writer) error) error {
	w := bufio.NewWriterSize(named{file, path}, 64<<10)
	if err := write(w); err != nil {
		return err
	}
	return w.Flush()
}

// named is a file with another path in its errors.
type named struct {
	*os.File
	path string
}

func (n named) Write(p []byte) (int, error) {
	written, err := n.File.Write(p)
	return written, at(n.path, err)
}

// at returns an error with path as its path.
func at(path string, err error) error {
	var link *os.LinkError
	var file *fs.PathError
	switch {
	case errors.As(err, &link):
		return &fs.PathError{Op: link.Op, Path: path, Err: link.Err}
	case errors.As(err, &file):
		return &fs.PathError{Op: file.Op, Path: path, Err: file.Err}
	}
	return err
}

// maxLinks is the limit of Linux for the symbolic links of a path.
const maxLinks = 40

// follow returns the path of the file that the symbolic links at path lead to. The file need not exist. Names of
// directories are not cleaned, because ".." after a symbolic link is the parent of its target.
func follow(path string) (string, error) {
	target := path
	for range maxLinks {
		link, err := os.Readlink(target)
		if err != nil {
			return target, nil // no link
		}
		if !filepath.IsAbs(link) {
			directory, _ := filepath.Split(target)
			link = directory + link
		}
		target = link
	}
	return "", fmt.Errorf("%s: too many symbolic links", path)
}
