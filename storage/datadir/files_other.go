//go:build !linux

package datadir

import (
	"errors"
	"os"
)

// allocate reports that the space of a file cannot be reserved.
func allocate(*os.File, int64) error { return errors.ErrUnsupported }

// syncData makes the content of a file durable.
func syncData(f *os.File) error { return f.Sync() }
