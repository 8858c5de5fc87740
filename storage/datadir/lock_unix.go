//go:build unix

package datadir

import (
	"errors"
	"os"
	"syscall"
)

// lock locks a file for this process until the file is closed: with LOCK_EX for one alone, with LOCK_SH together with
// others. It returns ErrInUse if another process, or another store of this one, has locked it.
func lock(f *os.File, how int) error {
	err := syscall.Flock(int(f.Fd()), how|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return ErrInUse
	}
	return os.NewSyscallError("flock", err)
}

// openLock opens the lock file, which it creates if necessary.
func openLock(name string) (*os.File, error) {
	return openAndLock(name, os.O_RDWR|os.O_CREATE, syscall.LOCK_EX)
}

// openLockReadOnly opens the lock file of a directory that is only read.
func openLockReadOnly(name string) (*os.File, error) {
	return openAndLock(name, os.O_RDONLY, syscall.LOCK_SH)
}

func openAndLock(name string, mode, how int) (*os.File, error) {
	f, err := os.OpenFile(name, mode, 0o600)
	if err != nil {
		return nil, err
	}
	if err := lock(f, how); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// syncDirectory makes the names in a directory durable.
func syncDirectory(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
