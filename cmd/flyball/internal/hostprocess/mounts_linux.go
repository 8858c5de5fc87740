package hostprocess

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// mountAll mounts in the mount namespace of this process.
func mountAll(mounts []Mount, hidden []string) error {
	// Mounts that are made later on this machine appear in the namespace, and none of the namespace outside.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return fmt.Errorf("mount namespace: %w", err)
	}
	n := namespace{copies: map[string]bool{}}
	sources := make([]string, len(mounts))
	for i, m := range mounts { // before a mount hides them
		var err error
		if sources[i], err = n.open(m.Source); err != nil {
			return err
		}
	}
	for i, m := range mounts {
		if err := n.bind(sources[i], m); err != nil {
			return err
		}
	}
	for _, dir := range hidden {
		if err := hide(dir); err != nil {
			return err
		}
	}
	return n.removeOldRoot()
}

// namespace is a mount namespace.
type namespace struct {
	copies  map[string]bool // the directories that are in memory
	oldRoot bool            // the root directory is in memory, and has the old one at oldRoot
}

// oldRoot is the directory of the old root in the new one.
const oldRoot = "/.flyball-old-root"

// open opens a path, and returns a path to it that remains valid.
func (n *namespace) open(name string) (string, error) {
	fd, err := unix.Open(name, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", &os.PathError{Op: "open", Path: name, Err: err}
	}
	return "/proc/self/fd/" + strconv.Itoa(fd), nil
}

// bind makes a source visible at the target of a mount.
func (n *namespace) bind(source string, m Mount) error {
	info, err := os.Stat(source)
	if err != nil {
		return err
	}
	target, missing, err := resolve(m.Target)
	if err != nil {
		return err
	}
	if missing != "" {
		if target, err = n.create(target, missing, info.IsDir()); err != nil {
			return fmt.Errorf("%s: %w", m.Target, err)
		}
	}
	if err := unix.Mount(source, target, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return &os.PathError{Op: "mount", Path: m.Target, Err: err}
	}
	return nil
}

// resolve follows the symbolic links of an absolute path. It returns the part that exists, and the rest.
func resolve(name string) (existing, missing string, err error) {
	for existing = path.Clean(name); ; existing = path.Dir(existing) {
		resolved, err := filepath.EvalSymlinks(existing)
		switch {
		case err == nil:
			return resolved, missing, nil
		case !errors.Is(err, fs.ErrNotExist):
			return "", "", err
		}
		if _, err := os.Lstat(existing); err == nil {
			return "", "", fmt.Errorf("%s is a symbolic link to a file that does not exist", existing)
		}
		missing = path.Join(path.Base(existing), missing)
	}
}

// create creates a directory or a file below an existing directory, in a copy that takes its place.
func (n *namespace) create(existing, missing string, dir bool) (string, error) {
	if !n.copies[existing] {
		if err := n.copy(existing); err != nil {
			return "", err
		}
	}
	target := path.Join(existing, missing)
	if dir {
		n.created(existing, target)
		return target, os.MkdirAll(target, 0o755)
	}
	n.created(existing, path.Dir(target))
	if err := os.MkdirAll(path.Dir(target), 0o755); err != nil {
		return "", err
	}
	return target, os.WriteFile(target, nil, 0o644)
}

// created records the directories from a copy down to a new directory in it, where nothing else has to be copied.
func (n *namespace) created(existing, target string) {
	for ; target != existing; target = path.Dir(target) {
		n.copies[target] = true
	}
}

// copy puts a directory in memory in the place of a directory. Its entries are bound to the original ones.
func (n *namespace) copy(dir string) error {
	if dir == "/" {
		return n.copyRoot()
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	original, err := n.open(dir)
	if err != nil {
		return err
	}
	if err := mountMemory(dir); err != nil {
		return err
	}
	n.copies[dir] = true
	for _, e := range entries {
		if err := bindEntry(original+"/"+e.Name(), path.Join(dir, e.Name()), e.Type()); err != nil {
			return err
		}
	}
	return nil
}

// copyRoot puts a directory in memory in the place of the root directory. A mount cannot do that, as processes keep the
// root directory that they have. So the copy is made at another directory, and becomes the root of the namespace.
func (n *namespace) copyRoot() error {
	entries, err := os.ReadDir("/")
	if err != nil {
		return err
	}
	i := slices.IndexFunc(entries, func(e fs.DirEntry) bool { return e.IsDir() && e.Name() != "proc" }) // paths in /proc are needed
	if i < 0 {
		return errors.New("the root directory has no directory")
	}
	staging := "/" + entries[i].Name()
	original, err := n.open(staging)
	if err != nil {
		return err
	}
	if err := mountMemory(staging); err != nil {
		return err
	}
	for _, e := range entries {
		from := "/" + e.Name()
		if from == staging {
			from = original
		}
		if err := bindEntry(from, staging+"/"+e.Name(), e.Type()); err != nil {
			return err
		}
	}
	if err := os.Mkdir(staging+oldRoot, 0o700); err != nil {
		return err
	}
	if err := unix.PivotRoot(staging, staging+oldRoot); err != nil {
		return fmt.Errorf("pivot_root: %w", err)
	}
	n.oldRoot, n.copies["/"] = true, true
	return os.Chdir("/")
}

// removeOldRoot removes the old root. What it has can no longer be mounted then.
func (n *namespace) removeOldRoot() error {
	if !n.oldRoot {
		return nil
	}
	if err := unix.Unmount(oldRoot, unix.MNT_DETACH); err != nil {
		return fmt.Errorf("umount of the old root: %w", err)
	}
	return os.Remove(oldRoot)
}

// bindEntry creates an entry of a copy. It leaves out an entry that is gone.
func bindEntry(from, to string, mode fs.FileMode) (err error) {
	switch {
	case mode&fs.ModeSymlink != 0:
		target, err := os.Readlink(from)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		return os.Symlink(target, to)
	case mode.IsDir():
		err = os.Mkdir(to, 0o755)
	default:
		err = os.WriteFile(to, nil, 0o644)
	}
	if err != nil {
		return err
	}
	switch err := unix.Mount(from, to, "", unix.MS_BIND|unix.MS_REC, ""); err {
	case nil:
		return nil
	case unix.ENOENT:
		return os.Remove(to)
	default:
		return &os.PathError{Op: "mount", Path: to, Err: err}
	}
}

// mountMemory mounts an empty directory in memory, with the permissions of the directory.
func mountMemory(dir string) error {
	var info unix.Stat_t
	if err := unix.Stat(dir, &info); err != nil {
		return &os.PathError{Op: "stat", Path: dir, Err: err}
	}
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("mode=%o", info.Mode&0o7777)); err != nil {
		return &os.PathError{Op: "mount", Path: dir, Err: err}
	}
	return nil
}

// hide makes a directory empty, if it exists.
func hide(dir string) error {
	dir, missing, err := resolve(dir)
	if err != nil || missing != "" {
		return nil // nobody can read it
	}
	return mountMemory(dir)
}
