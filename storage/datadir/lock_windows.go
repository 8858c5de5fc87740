package datadir

import (
	"errors"
	"os"
	"syscall"
)

// errSharingViolation is ERROR_SHARING_VIOLATION: another process has opened the file.
const errSharingViolation = syscall.Errno(32)

// openLock opens the lock file so that no other process can open it. It returns ErrInUse if one has.
func openLock(name string) (*os.File, error) {
	return openNotShared(name, syscall.GENERIC_READ|syscall.GENERIC_WRITE, syscall.OPEN_ALWAYS)
}

// openLockReadOnly opens the lock file of a directory that is only read.
func openLockReadOnly(name string) (*os.File, error) {
	return openNotShared(name, syscall.GENERIC_READ, syscall.OPEN_EXISTING)
}

func openNotShared(name string, access, creation uint32) (*os.File, error) {
	path, err := syscall.UTF16PtrFromString(name)
	if err != nil {
		return nil, err
	}
	const notShared = 0
	handle, err := syscall.CreateFile(path, access, notShared, nil, creation, syscall.FILE_ATTRIBUTE_NORMAL, 0)
	switch {
	case errors.Is(err, errSharingViolation):
		return nil, ErrInUse
	case err != nil:
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	return os.NewFile(uintptr(handle), name), nil
}

// syncDirectory does nothing: Windows has no such call, and NTFS journals the names.
func syncDirectory(string) error { return nil }
