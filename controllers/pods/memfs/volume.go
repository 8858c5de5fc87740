package memfs

import (
	"bytes"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"
)

// Volume is a folder that file systems mount.
type Volume struct {
	root *node

	mu  sync.Mutex
	set map[string]bool // the paths of the files of the last Set
}

// NewVolume returns an empty volume on a disk.
func (d *Disk) NewVolume() (*Volume, error) {
	root, err := d.newNode(fs.ModeDir|0o777, nil)
	if err != nil {
		return nil, err
	}
	return &Volume{root: root}, nil
}

// Content is the content of a file.
type Content struct {
	Data []byte
	// Mode has the permissions of the file.
	Mode fs.FileMode
}

// Set makes the volume consist of files, by their paths. Files of an earlier Set that are not in the new one are removed,
// and files that do not change stay as they are. Files that containers have written stay too.
// The volume keeps the data, which must not be changed afterwards.
func (v *Volume) Set(files map[string]Content) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	next := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		next[path.Clean("/"+name)] = true
		if err := v.put(path.Clean("/"+name), files[name]); err != nil {
			return &fs.PathError{Op: "set", Path: name, Err: err}
		}
	}
	for name := range v.set {
		if !next[name] {
			v.remove(name)
		}
	}
	v.set = next
	return nil
}

// folder returns the folder of a path, and makes missing ones.
func (v *Volume) folder(name string) (*node, error) {
	at := v.root
	for e := range strings.SplitSeq(strings.Trim(name, "/"), "/") {
		if e == "" {
			continue
		}
		next := at.child(e)
		if next == nil {
			made, err := at.disk.newNode(fs.ModeDir|0o755, nil)
			if err != nil {
				return nil, err
			}
			if err := at.add(e, made); err != nil {
				made.free()
				return nil, err
			}
			next = made
		}
		if at = next; !at.isDir() {
			return nil, syscall.ENOTDIR
		}
	}
	return at, nil
}

// Create creates a file, unless there is one. The volume keeps the data, which must not be changed afterwards.
func (v *Volume) Create(name string, c Content) error {
	name = path.Clean("/" + name)
	v.mu.Lock()
	defer v.mu.Unlock()
	dir, err := v.folder(path.Dir(name))
	if err == nil && dir.child(path.Base(name)) == nil {
		err = v.put(name, c)
	}
	if err != nil {
		return &fs.PathError{Op: "create", Path: name, Err: err}
	}
	return nil
}

// put creates or replaces a file, unless it has the content already. A file that is replaced stays the same for those who
// have it open.
func (v *Volume) put(name string, c Content) error {
	dir, err := v.folder(path.Dir(name))
	if err != nil {
		return err
	}
	base := path.Base(name)
	old := dir.child(base)
	if old != nil {
		old.mu.Lock()
		same := old.mode == c.Mode.Perm() && bytes.Equal(old.data, c.Data)
		old.mu.Unlock()
		if same {
			return nil
		}
		if old.isDir() {
			return syscall.EISDIR
		}
	}
	file, err := dir.disk.newNode(c.Mode.Perm(), c.Data)
	if err != nil {
		return err
	}
	if old != nil && dir.detach(base, old) {
		old.free()
	}
	if err := dir.add(base, file); err != nil {
		file.free()
		return err
	}
	return nil
}

// remove removes a file, and the folders that become empty.
func (v *Volume) remove(name string) {
	for name != "/" {
		dir, err := v.folder(path.Dir(name))
		if err != nil {
			return
		}
		n := dir.child(path.Base(name))
		if n == nil {
			return
		}
		n.mu.Lock()
		full := len(n.children) > 0
		n.removed = !full
		n.mu.Unlock()
		if full || !dir.detach(path.Base(name), n) {
			return
		}
		n.free()
		name = path.Dir(name)
	}
}

// Mount is a volume in a file system.
type Mount struct {
	// Path is the absolute path of the volume in the file system.
	Path   string
	Volume *Volume
	// SubPath is a path in the volume that is mounted instead of its root. A missing one becomes a folder.
	SubPath  string
	ReadOnly bool
	// Kind is the sort of file system that /proc/mounts shows, by default ext4.
	Kind string
}

// target returns the file or folder that is mounted.
func (m *Mount) target() (*node, error) {
	sub := path.Clean("/" + m.SubPath)
	if sub == "/" {
		return m.Volume.root, nil
	}
	dir, err := m.Volume.folder(path.Dir(sub))
	if err != nil {
		return nil, err
	}
	if n := dir.child(path.Base(sub)); n != nil {
		return n, nil
	}
	return m.Volume.folder(sub)
}
