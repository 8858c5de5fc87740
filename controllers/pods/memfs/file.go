package memfs

import (
	"crypto/rand"
	"io"
	"io/fs"
	"path"
	"sync"
	"syscall"

	"flyball.dev/controllers/pods/runtime"
)

// file is an open file.
type file struct {
	node           *node
	name           string
	fs             *FS
	place          *place
	reads, writes  bool
	appends        bool
	mu             sync.Mutex
	at             int64
	closed         bool
	entries        []fs.DirEntry // that ReadDir has not returned yet
	entriesStarted bool
}

var _ runtime.File = (*file)(nil)

// Changes returns a channel that is closed with the next change of the content. It is nil for a device, which does not
// change. A reader that has come to the end waits for it, after it has called Changes and read again.
func (f *file) Changes() <-chan struct{} {
	if f.node.device != noDevice {
		return nil
	}
	f.node.mu.Lock()
	defer f.node.mu.Unlock()
	if f.node.changed == nil {
		f.node.changed = make(chan struct{})
	}
	return f.node.changed
}

func (f *file) Stat() (fs.FileInfo, error) {
	return f.node.info(path.Base(path.Clean("/" + f.name))), nil
}

// check returns an error if the file is closed, or not opened for the operation. The lock is held.
func (f *file) check(op string, may bool) error {
	switch {
	case f.closed:
		return pathError(op, f.name, fs.ErrClosed)
	case !may:
		return pathError(op, f.name, syscall.EBADF)
	case f.node.isDir():
		return pathError(op, f.name, syscall.EISDIR)
	}
	return nil
}

// Read reads from the place in the file.
func (f *file) Read(b []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.check("read", f.reads); err != nil {
		return 0, err
	}
	switch f.node.device {
	case nullDevice:
		return 0, io.EOF
	case zeroDevice, fullDevice:
		clear(b)
		return len(b), nil
	case randomDevice:
		return rand.Read(b)
	}
	f.node.mu.Lock()
	defer f.node.mu.Unlock()
	if len(b) == 0 {
		return 0, nil
	}
	if f.at >= int64(len(f.node.data)) {
		return 0, io.EOF
	}
	n := copy(b, f.node.data[f.at:])
	f.at += int64(n)
	return n, nil
}

func (f *file) Write(b []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.check("write", f.writes); err != nil {
		return 0, err
	}
	switch f.node.device {
	case fullDevice:
		return 0, pathError("write", f.name, syscall.ENOSPC)
	case nullDevice, zeroDevice, randomDevice:
		return len(b), nil
	}
	f.node.mu.Lock()
	defer f.node.mu.Unlock()
	if f.appends {
		f.at = int64(len(f.node.data))
	}
	end := f.at + int64(len(b))
	if err := f.grow(end); err != nil {
		return 0, pathError("write", f.name, err)
	}
	copy(f.node.data[f.at:], b)
	f.at = end
	f.node.notify()
	return len(b), nil
}

// grow makes the content at least as long, and sees that the node owns it. The lock of the node is held.
func (f *file) grow(size int64) error {
	n := f.node
	more := size - int64(len(n.data))
	if more < 0 {
		more = 0
	}
	if err := n.disk.take(more); err != nil {
		return err
	}
	if size > int64(cap(n.data)) || !n.owned {
		data := make([]byte, max(size, int64(len(n.data))), max(size+size/4, 64))
		copy(data, n.data)
		n.data = data
		n.owned = true
	} else if more > 0 {
		old := len(n.data)
		n.data = n.data[:size]
		clear(n.data[old:])
	}
	return nil
}

func (f *file) Truncate(size int64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.check("truncate", f.writes); err != nil {
		return err
	}
	if size < 0 {
		return pathError("truncate", f.name, syscall.EINVAL)
	}
	return pathError("truncate", f.name, f.truncate(size))
}

func (f *file) truncate(size int64) error {
	f.node.mu.Lock()
	defer f.node.mu.Unlock()
	if old := int64(len(f.node.data)); size < old {
		_ = f.node.disk.take(size - old)
		f.node.data, f.node.owned = append([]byte(nil), f.node.data[:size]...), true
	} else if err := f.grow(size); err != nil {
		return err
	}
	f.node.notify()
	return nil
}

func (f *file) Seek(offset int64, whence int) (int64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.check("seek", true); err != nil {
		return 0, err
	}
	switch whence {
	case io.SeekCurrent:
		offset += f.at
	case io.SeekEnd:
		f.node.mu.Lock()
		offset += int64(len(f.node.data))
		f.node.mu.Unlock()
	}
	if offset < 0 {
		return 0, pathError("seek", f.name, syscall.EINVAL)
	}
	f.at = offset
	return offset, nil
}

func (f *file) ReadDir(n int) ([]fs.DirEntry, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.closed:
		return nil, pathError("readdir", f.name, fs.ErrClosed)
	case !f.node.isDir():
		return nil, pathError("readdir", f.name, syscall.ENOTDIR)
	}
	if !f.entriesStarted {
		f.entries, f.entriesStarted = f.fs.entries(f.place), true
	}
	switch {
	case n <= 0:
		n = len(f.entries)
	case len(f.entries) == 0:
		return nil, io.EOF
	}
	n = min(n, len(f.entries))
	entries := f.entries[:n]
	f.entries = f.entries[n:]
	return entries, nil
}

func (f *file) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return pathError("close", f.name, fs.ErrClosed)
	}
	f.closed = true
	return nil
}
