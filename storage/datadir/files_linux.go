package datadir

import (
	"errors"
	"os"
	"syscall"
)

// allocate reserves the space of a file.
func allocate(f *os.File, size int64) error {
	err := retry(func() error { return syscall.Fallocate(int(f.Fd()), 0, 0, size) })
	if errors.Is(err, syscall.EOPNOTSUPP) || errors.Is(err, syscall.ENOSYS) {
		return errors.ErrUnsupported
	}
	return os.NewSyscallError("fallocate", err)
}

// syncData makes the content of a file durable. The file has its size already, so its other metadata can
// be lost.
func syncData(f *os.File) error {
	return os.NewSyscallError("fdatasync", retry(func() error { return syscall.Fdatasync(int(f.Fd())) }))
}

// retry calls f until no signal interrupts it.
func retry(f func() error) error {
	for {
		if err := f(); err != syscall.EINTR {
			return err
		}
	}
}
