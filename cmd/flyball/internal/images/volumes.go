package images

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"flyball.dev/cmd/flyball/internal/hostprocess"
	"flyball.dev/controllers/pods/runtime"
)

// volume is a volume of a pod that a container mounts: a copy of the files in the file system of the container.
type volume struct {
	fs        runtime.FS
	path      string // in fs
	source    string // on this machine
	generated bool   // the control plane writes the files, and not the containers
}

// mounts returns the mounts of a container, and copies the volumes.
func (r *Runner) mounts(c *container, image *Image, p *runtime.Process) ([]hostprocess.Mount, error) {
	var mounts []hostprocess.Mount
	for _, m := range p.Container.VolumeMounts {
		target := path.Clean("/" + m.MountPath)
		if err := checkTarget(target, image); err != nil {
			return nil, fmt.Errorf("the volume %s: %w", m.Name, err)
		}
		v := &volume{fs: p.FS, path: target, generated: isGenerated(p.Pod, m.Name)}
		sub := m.SubPath
		if m.SubPathExpr != "" {
			sub = "." + p.Container.Name + "." + strings.ReplaceAll(strings.Trim(target, "/"), "/", ".") // nobody else has to find it
		}
		v.source = filepath.Join(r.podDir(p.Pod.UID), "volumes", filepath.Base(m.Name), filepath.FromSlash(path.Clean("/"+sub)))
		if err := v.copy(); err != nil {
			return nil, fmt.Errorf("the volume %s: %w", m.Name, err)
		}
		if v.generated && sub == "" {
			c.volumes = append(c.volumes, v)
		}
		mounts = append(mounts, hostprocess.Mount{Source: v.source, Target: target})
	}
	return mounts, nil
}

// isGenerated reports whether the control plane writes the files of a volume.
func isGenerated(pod *corev1.Pod, name string) bool {
	for _, v := range pod.Spec.Volumes {
		if v.Name == name {
			return v.ConfigMap != nil || v.Secret != nil || v.Projected != nil || v.DownwardAPI != nil
		}
	}
	return false
}

// Directories at which volumes can be mounted, also if this machine has them. Programs find tokens and certificates of
// webhooks there, and nothing that is executed.
var permitted = []string{"/var/run/secrets", "/run/secrets", "/tmp/k8s-webhook-server"}

// checkTarget returns an error unless a volume can be mounted at a path. A volume must not take the place of a file of
// this machine, nor be where programs look for code: so it is at a permitted path, in /tmp, or in a directory at the
// root that this machine does not have.
func checkTarget(target string, image *Image) error {
	for _, dir := range permitted {
		if isBelow(target, dir) {
			return nil
		}
	}
	first, _, _ := strings.Cut(strings.TrimPrefix(target, "/"), "/")
	if _, err := os.Lstat("/" + first); errors.Is(err, fs.ErrNotExist) && first != "" {
		return nil
	}
	if isBelow(target, "/tmp") && target != "/tmp" && !isBelow(image.path, target) {
		if _, err := os.Lstat(target); errors.Is(err, fs.ErrNotExist) {
			return nil
		}
	}
	return fmt.Errorf("it cannot be mounted at %s, which may have files of the host: the volumes of a program of the host are below %s, "+
		"at paths in /tmp that do not exist, or in a directory that the host does not have", target, strings.Join(permitted, ", "))
}

// isBelow reports whether a path is a directory or below it.
func isBelow(name, dir string) bool { return name == dir || strings.HasPrefix(name, dir+"/") }

// copy copies the files of the volume.
func (v *volume) copy() error {
	info, err := v.fs.Stat(v.path)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		if err := os.MkdirAll(filepath.Dir(v.source), 0o755); err != nil {
			return err
		}
		root, err := os.OpenRoot(filepath.Dir(v.source))
		if err != nil {
			return err
		}
		defer root.Close()
		return copyFile(v.fs, v.path, root, filepath.Base(v.source), info, v.generated)
	}
	if err := os.MkdirAll(v.source, 0o755); err != nil {
		return err
	}
	return v.refresh()
}

// refresh copies the files of the volume. If the control plane writes the volume, these replace the ones that are there.
func (v *volume) refresh() error {
	// What the program has made of the directory cannot lead out of it.
	root, err := os.OpenRoot(v.source)
	if err != nil {
		return err
	}
	defer root.Close()
	return copyDir(v.fs, v.path, root, ".", v.generated)
}

// copyDir copies the entries of a directory. With replace, they replace the ones that are there.
func copyDir(from runtime.FS, source string, to *os.Root, target string, replace bool) error {
	entries, err := from.ReadDir(source)
	if err != nil {
		return err
	}
	kept := map[string]bool{}
	var errs []error
	for _, e := range entries {
		kept[e.Name()] = true
		errs = append(errs, copyEntry(from, path.Join(source, e.Name()), to, path.Join(target, e.Name()), replace))
	}
	if replace {
		errs = append(errs, removeOthers(to, target, kept))
	}
	return errors.Join(errs...)
}

// copyEntry copies a file, a directory or a symbolic link.
func copyEntry(from runtime.FS, source string, to *os.Root, target string, replace bool) error {
	info, err := from.Lstat(source)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // it has just gone
	}
	switch {
	case err != nil:
		return err
	case info.IsDir():
		if err := to.Mkdir(target, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		return copyDir(from, source, to, target, replace)
	case info.Mode()&fs.ModeSymlink != 0:
		if _, err := to.Lstat(target); err == nil && !replace {
			return nil
		}
		link, err := from.Readlink(source)
		if err != nil {
			return err
		}
		if old, err := to.Readlink(target); err == nil && old == link {
			return nil
		}
		_ = to.Remove(target) // the next error says more
		return to.Symlink(link, target)
	case info.Mode().IsRegular():
		return copyFile(from, source, to, target, info, replace)
	}
	return nil
}

// copyFile copies a file, unless the target is the same already or, without replace, is there. Readers see the old content
// or the new one.
func copyFile(from runtime.FS, source string, to *os.Root, target string, info fs.FileInfo, replace bool) error {
	if _, err := to.Lstat(target); err == nil && !replace {
		return nil
	}
	f, err := from.OpenFile(source, os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	content, err := io.ReadAll(f)
	if err != nil {
		return err
	}
	mode := info.Mode().Perm() | 0o400 // the program is not root, perhaps
	if old, err := to.ReadFile(target); err == nil && bytes.Equal(old, content) {
		return nil
	}
	temporary := path.Join(path.Dir(target), ".flyball-"+path.Base(target))
	if err := to.WriteFile(temporary, content, mode); err != nil {
		return err
	}
	return to.Rename(temporary, target)
}

// removeOthers removes the entries of a directory that are not in a set.
func removeOthers(root *os.Root, dir string, kept map[string]bool) error {
	f, err := root.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	names, err := f.Readdirnames(-1)
	if err != nil {
		return err
	}
	for _, name := range names {
		if !kept[name] {
			err = errors.Join(err, root.RemoveAll(path.Join(dir, name)))
		}
	}
	return err
}
