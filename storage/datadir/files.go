package datadir

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// files are the files of one directory. Tests replace them.
type files interface {
	// List returns the names of all files.
	List() ([]string, error)
	// Open opens a file to read it and, unless the files are read-only, to write it.
	Open(name string) (file, error)
	// Create creates a file, in place of one that there is.
	Create(name string) (file, error)
	// Rename renames a file, in place of one that there is.
	Rename(from, to string) error
	Remove(name string) error
	// Sync makes the names of the files durable.
	Sync() error
}

// file is an open file.
type file interface {
	io.ReaderAt
	io.WriterAt
	Size() (int64, error)
	// Allocate makes the file that long, and reserves the space if the file system can do that. What was
	// not written reads as zeros.
	Allocate(size int64) error
	// Sync makes the content durable.
	Sync() error
	Close() error
}

// osFiles are the files of a directory of the operating system.
type osFiles struct {
	dir      string
	readOnly bool // files are opened to be read alone
}

func (o osFiles) List() ([]string, error) {
	entries, err := os.ReadDir(o.dir)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, err
}

func (o osFiles) Open(name string) (file, error) {
	mode := os.O_RDWR
	if o.readOnly {
		mode = os.O_RDONLY
	}
	f, err := os.OpenFile(filepath.Join(o.dir, name), mode, 0)
	if err != nil {
		return nil, err
	}
	return osFile{f}, nil
}

func (o osFiles) Create(name string) (file, error) {
	f, err := os.OpenFile(filepath.Join(o.dir, name), os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	return osFile{f}, nil
}

func (o osFiles) Rename(from, to string) error {
	return os.Rename(filepath.Join(o.dir, from), filepath.Join(o.dir, to))
}

func (o osFiles) Remove(name string) error { return os.Remove(filepath.Join(o.dir, name)) }

func (o osFiles) Sync() error { return syncDirectory(o.dir) }

// osFile is an open file of the operating system.
type osFile struct{ *os.File }

func (f osFile) Size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

func (f osFile) Allocate(size int64) error {
	if err := allocate(f.File, size); !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	return f.Truncate(size)
}

func (f osFile) Sync() error { return syncData(f.File) }

// readAll returns the content of a file.
func readAll(fs files, name string) ([]byte, error) {
	f, err := fs.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	data := make([]byte, size)
	if n, err := f.ReadAt(data, 0); n < len(data) {
		return nil, err
	}
	return data, nil
}

// replace creates a file with a content, durably: after a crash, the file is there as a whole, or not at
// all. A size that is not zero is allocated first. The caller closes the file. An error is errUnknown if
// the file may be there nevertheless.
func replace(fs files, name string, size int64, write func(file) error) (file, error) {
	temporary := name + temporarySuffix
	f, err := fs.Create(temporary)
	if err != nil {
		return nil, err
	}
	if size > 0 {
		err = f.Allocate(size)
	}
	if err == nil {
		err = write(f)
	}
	if err == nil {
		err = f.Sync()
	}
	if err != nil {
		return nil, errors.Join(err, f.Close(), ignoreNotExist(fs.Remove(temporary)))
	}
	if err = fs.Rename(temporary, name); err == nil {
		err = fs.Sync()
	}
	if err != nil {
		return nil, errors.Join(errUnknown, err, f.Close())
	}
	return f, nil
}

// errUnknown means that nobody knows what of a write is durable.
var errUnknown = errors.New("the disk failed, and may have another state than memory: start again")

// temporarySuffix is what the name of a file ends in until the file is whole.
const temporarySuffix = ".tmp"

func ignoreNotExist(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
