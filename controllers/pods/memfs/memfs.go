// Package memfs has file systems in memory, for containers without machines. Nothing in this package opens a file of the
// host.
//
// A [Disk] bounds the size of the volumes and file systems on it. A [Volume] is a folder that several file systems can
// mount, as the containers of a pod mount the pod's volumes. An [FS] has a root folder of its own and mounts volumes.
//
//upstream:none It is a file system in memory.
package memfs

import (
	"io/fs"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"flyball.dev/controllers/pods/runtime"
)

// nodeSize is the cost of a file or folder besides its name and content, in bytes.
const nodeSize = 256

// Disk counts the bytes of files. It may be used by several goroutines at once.
type Disk struct {
	parent *Disk
	limit  int64
	used   atomic.Int64
}

// NewDisk returns a disk with room for a number of bytes. The parent, if there is one, counts the bytes too.
func NewDisk(limit int64, parent *Disk) *Disk { return &Disk{parent: parent, limit: limit} }

// Used returns the number of bytes in use.
func (d *Disk) Used() int64 { return d.used.Load() }

// take reserves bytes, or returns ENOSPC.
func (d *Disk) take(n int64) error {
	for at := d; at != nil; at = at.parent {
		if at.used.Add(n) > at.limit && n > 0 {
			at.used.Add(-n)
			for back := d; back != at; back = back.parent {
				back.used.Add(-n)
			}
			return syscall.ENOSPC
		}
	}
	return nil
}

// Release gives the bytes of everything on the disk back to its parent. The disk, its volumes and its file systems must
// not be used afterwards.
func (d *Disk) Release() {
	used := d.used.Swap(0)
	for at := d.parent; at != nil; at = at.parent {
		at.used.Add(-used)
	}
}

// device is a sort of device file.
type device uint8

const (
	noDevice device = iota
	nullDevice
	zeroDevice
	fullDevice
	randomDevice
)

// node is a file, folder, symbolic link or device.
type node struct {
	disk   *Disk
	id     uint64
	device device

	mu       sync.Mutex
	mode     fs.FileMode
	modified time.Time
	data     []byte           // of a file; the target of a symbolic link
	owned    bool             // data is not shared with the caller of [Volume.Set]
	children map[string]*node // of a folder
	removed  bool             // a folder that was removed takes no more files
	changed  chan struct{}    // closed with the next change of the data, if somebody waits for it
}

// lastID numbers the nodes of the process.
var lastID atomic.Uint64

// newNode returns a node, and reserves its size.
func (d *Disk) newNode(mode fs.FileMode, data []byte) (*node, error) {
	if err := d.take(nodeSize + int64(len(data))); err != nil {
		return nil, err
	}
	n := &node{disk: d, id: lastID.Add(1), mode: mode, modified: time.Now(), data: data}
	if mode.IsDir() {
		n.children = map[string]*node{}
	}
	return n, nil
}

// free gives the bytes of a node that was removed back. Open files go on without being counted.
func (n *node) free() {
	n.mu.Lock()
	defer n.mu.Unlock()
	_ = n.disk.take(-nodeSize - int64(len(n.data)))
}

func (n *node) isDir() bool { return n.children != nil }

// child returns a child of a folder, or nil.
func (n *node) child(name string) *node {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.children[name]
}

// add adds a child to a folder, unless a child has the name.
func (n *node) add(name string, child *node) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.removed:
		return syscall.ENOENT
	case n.children[name] != nil:
		return syscall.EEXIST
	}
	if err := n.disk.take(int64(len(name))); err != nil {
		return err
	}
	n.children[name] = child
	n.modified = time.Now()
	return nil
}

// detach removes a child from a folder, if it is the expected one.
func (n *node) detach(name string, child *node) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.children[name] != child {
		return false
	}
	delete(n.children, name)
	_ = n.disk.take(-int64(len(name)))
	n.modified = time.Now()
	return true
}

// info returns the FileInfo of a node.
func (n *node) info(name string) fs.FileInfo {
	n.mu.Lock()
	defer n.mu.Unlock()
	return &info{name: name, size: int64(len(n.data)), mode: n.mode, modified: n.modified, id: n.id}
}

// notify wakes the goroutines that wait for a change. The lock of the node is held.
func (n *node) notify() {
	n.modified = time.Now()
	if n.changed != nil {
		close(n.changed)
		n.changed = nil
	}
}

// info is the FileInfo of a node.
type info struct {
	name     string
	size     int64
	mode     fs.FileMode
	modified time.Time
	id       uint64
}

func (i *info) Name() string       { return i.name }
func (i *info) Size() int64        { return i.size }
func (i *info) Mode() fs.FileMode  { return i.mode }
func (i *info) ModTime() time.Time { return i.modified }
func (i *info) IsDir() bool        { return i.mode.IsDir() }

// Sys returns the number of the file, as a uint64. Two names of one file have the same number.
func (i *info) Sys() any { return i.id }

var _ runtime.FS = (*FS)(nil)
