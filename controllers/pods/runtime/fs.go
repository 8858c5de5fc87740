package runtime

import (
	"io"
	"io/fs"
	"time"
)

// FS is the file system of a container, in memory. The containers of a pod share the volumes that they mount, and
// nothing else. Names are absolute paths with slashes; they are cleaned, and .. does not leave the root. Symbolic links
// are followed within the file system. Its methods may be called from several goroutines at once, and return errors of
// type *fs.PathError with the errors of package fs or syscall (ENOTDIR, EISDIR, ENOTEMPTY, EROFS, ENOSPC).
//
// The size of a file system is bounded. A write above the bound returns ENOSPC.
type FS interface {
	// OpenFile opens a file with the flags of package os. A directory can be opened for reading.
	OpenFile(name string, flag int, perm fs.FileMode) (File, error)
	// Stat and Lstat return the FileInfo of a name; Lstat does not follow a symbolic link in the last element.
	Stat(name string) (fs.FileInfo, error)
	Lstat(name string) (fs.FileInfo, error)
	// ReadDir returns the entries of a directory, sorted by name.
	ReadDir(name string) ([]fs.DirEntry, error)
	Mkdir(name string, perm fs.FileMode) error
	// Remove removes a file or an empty directory.
	Remove(name string) error
	Rename(oldname, newname string) error
	Symlink(target, name string) error
	Readlink(name string) (string, error)
	Chmod(name string, mode fs.FileMode) error
	Chtimes(name string, modified time.Time) error
}

// File is an open file of an FS.
type File interface {
	fs.ReadDirFile
	io.Writer
	io.Seeker
	Truncate(size int64) error
}
