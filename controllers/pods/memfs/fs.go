package memfs

import (
	"cmp"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"flyball.dev/controllers/pods/runtime"
)

// FS is a file system. Its methods do what [runtime.FS] says. Every user may read and write every file, except in volumes
// that are mounted read-only.
type FS struct {
	disk   *Disk
	root   *node
	mounts map[*node]mounted // by the file or folder that they hide; constant

	readOnly bool // of the root folder
}

// MakeReadOnly makes the file system read-only, except for its mounts. It is called before the first process.
func (f *FS) MakeReadOnly() { f.readOnly = true }

// mounted is a mounted file or folder.
type mounted struct {
	node     *node
	readOnly bool
}

// folders are the folders of a new file system.
var folders = []string{"/bin", "/dev", "/etc", "/home", "/proc", "/root", "/run", "/tmp", "/usr", "/usr/local", "/usr/local/bin", "/var", "/var/log", "/var/run"}

// devices are the device files.
var devices = map[string]device{"null": nullDevice, "zero": zeroDevice, "full": fullDevice, "random": randomDevice, "urandom": randomDevice}

// NewFS returns a file system with the folders of a small image, with device files, with the files of an image by their paths,
// and with volumes. A mount may be below another one, and hides files of the image. The name in an error is the path of the
// mount or of the file. The file system keeps the data of the files, which must not be changed afterwards.
func (d *Disk) NewFS(image map[string]Content, mounts ...Mount) (*FS, error) {
	root, err := d.newNode(fs.ModeDir|0o755, nil)
	if err != nil {
		return nil, err
	}
	f := &FS{disk: d, root: root, mounts: map[*node]mounted{}}
	for _, name := range folders {
		if err := f.Mkdir(name, 0o755); err != nil {
			return nil, err
		}
	}
	for name, kind := range devices {
		n, err := d.newNode(fs.ModeDevice|fs.ModeCharDevice|0o666, nil)
		if err == nil {
			n.device = kind
			err = root.child("dev").add(name, n)
		}
		if err != nil {
			return nil, err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(image)) {
		if err := f.put(name, image[name]); err != nil {
			return nil, &fs.PathError{Op: "create", Path: name, Err: err}
		}
	}
	mounts = slices.Clone(mounts)
	slices.SortStableFunc(mounts, func(a, b Mount) int { return cmp.Compare(a.Path, b.Path) })
	if err := f.make("/proc/mounts", 0o444, mountTable(mounts), true); err != nil && err != syscall.EEXIST {
		return nil, err
	}
	for i := range mounts {
		if err := f.mount(&mounts[i]); err != nil {
			return nil, &fs.PathError{Op: "mount", Path: mounts[i].Path, Err: err}
		}
	}
	return f, nil
}

// mountTable returns the file /proc/mounts.
func mountTable(mounts []Mount) []byte {
	escape := strings.NewReplacer(" ", `\040`, "\t", `\011`, "\n", `\012`, `\`, `\134`)
	var t strings.Builder
	t.WriteString("overlay / overlay rw 0 0\n")
	for _, m := range mounts {
		kind, access := cmp.Or(m.Kind, "ext4"), "rw"
		if m.ReadOnly {
			access = "ro"
		}
		fmt.Fprintf(&t, "%s %s %s %s 0 0\n", kind, escape.Replace(path.Clean("/"+m.Path)), kind, access)
	}
	return []byte(t.String())
}

// put creates a file, and the missing folders above it.
func (f *FS) put(name string, c Content) error {
	if err := f.folders(path.Dir(name)); err != nil {
		return err
	}
	return f.make(name, c.Mode.Perm(), c.Data, true)
}

// folders makes the missing folders of a path.
func (f *FS) folders(name string) error {
	at := ""
	for e := range strings.SplitSeq(strings.Trim(name, "/"), "/") {
		if at += "/" + e; at == "/" {
			continue
		}
		if err := f.make(at, fs.ModeDir|0o755, nil, true); err != nil && err != syscall.EEXIST {
			return err
		}
	}
	return nil
}

// mount mounts a volume. A missing folder of the path is made, also in the volume that it is in.
func (f *FS) mount(m *Mount) error {
	target, err := m.target()
	if err != nil {
		return err
	}
	name := path.Clean("/" + m.Path)
	if name == "/" {
		return syscall.EBUSY
	}
	mode := fs.FileMode(0o644)
	if target.isDir() {
		mode = fs.ModeDir | 0o755
	}
	if err := f.folders(path.Dir(name)); err != nil {
		return err
	}
	if err := f.make(name, mode, nil, true); err != nil && err != syscall.EEXIST {
		return err
	}
	w, err := f.walk(name, true)
	if err == nil && w.place == nil {
		err = syscall.ENOENT
	}
	if err != nil {
		return err
	}
	point := w.place.node
	if w.place.point != nil { // mounted over another mount
		point = w.place.point
	}
	f.mounts[point] = mounted{target, m.ReadOnly}
	return nil
}

// place is a file or folder on the way from the root.
type place struct {
	node     *node
	point    *node // the file or folder that the mounted node hides
	readOnly bool
	parent   *place // nil for the root
	name     string
}

// walked is the end of a path: the place, or the folder without the last element.
type walked struct {
	place *place // nil if there is no such file
	dir   *place
	base  string // the last element; its links are followed
}

// maxLinks is the number of symbolic links that a path may follow.
const maxLinks = 40

// walk finds the end of a path. All elements but the last must exist.
func (f *FS) walk(name string, follow bool) (w walked, err error) {
	at := &place{node: f.root, readOnly: f.readOnly}
	rest := strings.Split(strings.Trim(path.Clean("/"+name), "/"), "/")
	for links := 0; len(rest) > 0; {
		e := rest[0]
		rest = rest[1:]
		if !at.node.isDir() {
			return w, syscall.ENOTDIR
		}
		switch e {
		case "", ".":
			continue
		case "..":
			if at.parent != nil {
				at = at.parent
			}
			continue
		}
		child := at.node.child(e)
		if child == nil {
			if len(rest) > 0 {
				return w, syscall.ENOENT
			}
			return walked{dir: at, base: e}, nil
		}
		next := &place{node: child, readOnly: at.readOnly, parent: at, name: e}
		if m, ok := f.mounts[child]; ok {
			next.node, next.point, next.readOnly = m.node, child, m.readOnly
		}
		if next.node.mode&fs.ModeSymlink != 0 && (len(rest) > 0 || follow) {
			if links++; links > maxLinks {
				return w, syscall.ELOOP
			}
			target := string(next.node.data)
			if strings.HasPrefix(target, "/") {
				at = &place{node: f.root, readOnly: f.readOnly}
			}
			rest = append(strings.Split(target, "/"), rest...)
			continue
		}
		at = next
	}
	return walked{place: at, dir: at.parent, base: at.name}, nil
}

// get returns an existing file.
func (f *FS) get(name string, follow bool) (*place, error) {
	w, err := f.walk(name, follow)
	if err == nil && w.place == nil {
		err = syscall.ENOENT
	}
	return w.place, err
}

// make creates a file, folder or link.
func (f *FS) make(name string, mode fs.FileMode, data []byte, readOnly bool) error {
	w, err := f.walk(name, mode&fs.ModeSymlink == 0 && !mode.IsDir())
	switch {
	case err != nil:
		return err
	case w.place != nil:
		return syscall.EEXIST
	case w.dir.readOnly && !readOnly:
		return syscall.EROFS
	}
	n, err := w.dir.node.disk.newNode(mode, data)
	if err != nil {
		return err
	}
	if err := w.dir.node.add(w.base, n); err != nil {
		n.free()
		return err
	}
	return nil
}

// pathError returns an error with a path, or nil.
func pathError(op, name string, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: op, Path: name, Err: err}
}

// OpenFile implements [runtime.FS].
func (f *FS) OpenFile(name string, flag int, perm fs.FileMode) (runtime.File, error) {
	o, err := f.open(name, flag, perm)
	if err != nil {
		return nil, pathError("open", name, err)
	}
	return o, nil
}

func (f *FS) open(name string, flag int, perm fs.FileMode) (*file, error) {
	if flag&syscall.O_CREAT != 0 {
		if err := f.make(name, perm.Perm(), nil, false); err != nil && (err != syscall.EEXIST || flag&syscall.O_EXCL != 0) {
			return nil, err
		}
	}
	p, err := f.get(name, true)
	if err != nil {
		return nil, err
	}
	writes := flag&(syscall.O_WRONLY|syscall.O_RDWR) != 0
	switch {
	case writes && p.node.isDir():
		return nil, syscall.EISDIR
	case writes && p.readOnly && p.node.device == noDevice:
		return nil, syscall.EROFS
	}
	o := &file{node: p.node, name: name, fs: f, place: p, reads: flag&syscall.O_WRONLY == 0, writes: writes, appends: flag&syscall.O_APPEND != 0}
	if writes && flag&syscall.O_TRUNC != 0 && p.node.device == noDevice {
		return o, o.truncate(0)
	}
	return o, nil
}

// Stat implements [runtime.FS].
func (f *FS) Stat(name string) (fs.FileInfo, error) { return f.stat("stat", name, true) }

// Lstat implements [runtime.FS].
func (f *FS) Lstat(name string) (fs.FileInfo, error) { return f.stat("lstat", name, false) }

func (f *FS) stat(op, name string, follow bool) (fs.FileInfo, error) {
	p, err := f.get(name, follow)
	if err != nil {
		return nil, pathError(op, name, err)
	}
	return p.node.info(path.Base(path.Clean("/" + name))), nil
}

// ReadDir implements [runtime.FS].
func (f *FS) ReadDir(name string) ([]fs.DirEntry, error) {
	p, err := f.get(name, true)
	if err == nil && !p.node.isDir() {
		err = syscall.ENOTDIR
	}
	if err != nil {
		return nil, pathError("readdir", name, err)
	}
	return f.entries(p), nil
}

// entries returns the entries of a folder.
func (f *FS) entries(p *place) []fs.DirEntry {
	p.node.mu.Lock()
	children := make([]fs.DirEntry, 0, len(p.node.children))
	nodes := make(map[string]*node, len(p.node.children))
	for name, n := range p.node.children {
		nodes[name] = n
	}
	p.node.mu.Unlock()
	for name, n := range nodes {
		if m, ok := f.mounts[n]; ok {
			n = m.node
		}
		children = append(children, fs.FileInfoToDirEntry(n.info(name)))
	}
	slices.SortFunc(children, func(a, b fs.DirEntry) int { return cmp.Compare(a.Name(), b.Name()) })
	return children
}

// Mkdir implements [runtime.FS].
func (f *FS) Mkdir(name string, perm fs.FileMode) error {
	return pathError("mkdir", name, f.make(name, fs.ModeDir|perm.Perm(), nil, false))
}

// Symlink implements [runtime.FS].
func (f *FS) Symlink(target, name string) error {
	if target == "" {
		return pathError("symlink", name, syscall.ENOENT)
	}
	return pathError("symlink", name, f.make(name, fs.ModeSymlink|0o777, []byte(target), false))
}

// Readlink implements [runtime.FS].
func (f *FS) Readlink(name string) (string, error) {
	p, err := f.get(name, false)
	if err == nil && p.node.mode&fs.ModeSymlink == 0 {
		err = syscall.EINVAL
	}
	if err != nil {
		return "", pathError("readlink", name, err)
	}
	return string(p.node.data), nil
}

// renames orders removals of folders and renames, so that a folder never becomes part of itself.
var renames sync.Mutex

// Remove implements [runtime.FS].
func (f *FS) Remove(name string) error {
	renames.Lock()
	defer renames.Unlock()
	p, err := f.get(name, false)
	if err == nil {
		err = f.remove(p)
	}
	return pathError("remove", name, err)
}

// remove removes a file or an empty folder.
func (f *FS) remove(p *place) error {
	switch {
	case p.parent == nil || p.point != nil:
		return syscall.EBUSY
	case p.parent.readOnly:
		return syscall.EROFS
	}
	p.node.mu.Lock()
	full := len(p.node.children) > 0
	p.node.removed = p.node.isDir() && !full
	p.node.mu.Unlock()
	switch {
	case full:
		return syscall.ENOTEMPTY
	case !p.parent.node.detach(p.name, p.node):
		return syscall.ENOENT
	}
	p.node.free()
	return nil
}

// Rename implements [runtime.FS].
func (f *FS) Rename(oldname, newname string) error {
	renames.Lock()
	defer renames.Unlock()
	return pathError("rename", oldname, f.rename(oldname, newname))
}

// rename is Rename without the lock of renames.
func (f *FS) rename(oldname, newname string) error {
	from, err := f.get(oldname, false)
	if err != nil {
		return err
	}
	to, err := f.walk(newname, false)
	switch {
	case err != nil:
		return err
	case from.parent == nil || from.point != nil || to.dir == nil || to.place != nil && to.place.point != nil:
		return syscall.EBUSY
	case from.parent.readOnly || to.dir.readOnly:
		return syscall.EROFS
	case from.node.disk != to.dir.node.disk:
		return syscall.EXDEV
	}
	for p := to.dir; p != nil; p = p.parent {
		if p.node == from.node {
			return syscall.EINVAL
		}
	}
	if to.place != nil {
		switch {
		case to.place.node == from.node:
			return nil
		case to.place.node.isDir() && !from.node.isDir():
			return syscall.EISDIR
		case !to.place.node.isDir() && from.node.isDir():
			return syscall.ENOTDIR
		}
		if err := f.remove(to.place); err != nil {
			return err
		}
	}
	if err := to.dir.node.add(to.base, from.node); err != nil {
		return err
	}
	from.parent.node.detach(from.name, from.node)
	return nil
}

// Chmod implements [runtime.FS].
func (f *FS) Chmod(name string, mode fs.FileMode) error {
	return f.change("chmod", name, func(n *node) { n.mode = n.mode&^fs.ModePerm | mode.Perm() })
}

// Chtimes implements [runtime.FS].
func (f *FS) Chtimes(name string, modified time.Time) error {
	return f.change("chtimes", name, func(n *node) { n.modified = modified })
}

func (f *FS) change(op, name string, change func(*node)) error {
	p, err := f.get(name, true)
	if err == nil && p.readOnly {
		err = syscall.EROFS
	}
	if err != nil {
		return pathError(op, name, err)
	}
	p.node.mu.Lock()
	defer p.node.mu.Unlock()
	change(p.node)
	return nil
}
