package shell

import (
	archive "archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
	"syscall"
)

// tar creates, lists and extracts archives, as kubectl cp does.
func tar(c *invocation) int {
	if len(c.args) > 1 && !strings.HasPrefix(c.args[1], "-") {
		c.args = append([]string{c.args[0], "-" + c.args[1]}, c.args[2:]...)
	}
	o, ok := c.options("cxtf:C:zvmphOkoX:T: create=c extract=x get=x list=t file=f directory=C gzip=z verbose=v touch=m no-same-permissions=p no-same-owner=o same-owner=p to-stdout=O dereference=h warning=X files-from=T")
	if !ok {
		return 2
	}
	dir := c.in.dir
	defer func() { c.in.dir = dir }()
	if o.has('C') {
		to := c.path(o.get('C'))
		if info, err := c.in.fs.Stat(to); err != nil || !info.IsDir() {
			if err == nil {
				err = syscall.ENOTDIR
			}
			c.errorf("can't change directory to '%s': %s", o.get('C'), errText(err))
			return 1
		}
		c.in.dir = to
	}
	file := o.get('f')
	if file != "-" && file != "" {
		file = absolute(dir, file)
	}
	switch {
	case o.has('c'):
		return c.createArchive(file, o)
	case o.has('x'), o.has('t'):
		return c.readArchive(file, o)
	}
	c.errorf("one of -c, -x and -t is needed")
	return 2
}

// createArchive writes files to an archive. Absolute names become relative.
func (c *invocation) createArchive(file string, o *arguments) int {
	out := io.Writer(c.out)
	listing := c.err
	if file != "-" && file != "" {
		w, closer, err := c.create(file, syscall.O_TRUNC)
		if err != nil {
			return c.fileError(file, err)
		}
		defer closer()
		out, listing = w, c.out
	}
	if len(o.args) == 0 {
		return c.errorf("empty archive")
	}
	if o.has('z') {
		z := gzip.NewWriter(out)
		defer z.Close()
		out = z
	}
	w := archive.NewWriter(out)
	code := 0
	stripped := false
	for _, name := range o.args {
		code = max(code, c.walk(path.Clean(name), func(name string, info fs.FileInfo) bool {
			entry := strings.TrimLeft(name, "/")
			if entry != name && !stripped {
				stripped = true
				fmt.Fprintln(c.err, "tar: removing leading '/' from member names")
			}
			if entry == "" {
				entry = "./"
			}
			if err := c.addToArchive(w, name, entry, info, o.has('h')); err != nil {
				code = c.fileError(name, err)
			}
			if o.has('v') {
				fmt.Fprintln(listing, entry)
			}
			return true
		}))
	}
	if err := w.Close(); err != nil {
		code = c.errorf("%s", errText(err))
	}
	return code
}

// addToArchive writes a file to an archive. The file may change meanwhile.
func (c *invocation) addToArchive(w *archive.Writer, name, entry string, info fs.FileInfo, follow bool) error {
	if follow && info.Mode()&fs.ModeSymlink != 0 {
		target, err := c.in.fs.Stat(c.path(name))
		if err != nil {
			return err
		}
		info = target
	}
	who := c.in.process.root.identity
	h := &archive.Header{Name: entry, Mode: int64(info.Mode().Perm()), ModTime: info.ModTime(), Typeflag: archive.TypeReg, Size: info.Size(),
		Uid: int(who.user), Gid: int(who.group)}
	switch m := info.Mode(); {
	case m.IsDir():
		h.Typeflag, h.Size, h.Name = archive.TypeDir, 0, strings.TrimSuffix(entry, "/")+"/"
	case m&fs.ModeSymlink != 0:
		target, err := c.in.fs.Readlink(c.path(name))
		if err != nil {
			return err
		}
		h.Typeflag, h.Size, h.Linkname = archive.TypeSymlink, 0, target
	case !m.IsRegular():
		return nil
	}
	if h.Typeflag != archive.TypeReg {
		return w.WriteHeader(h)
	}
	r, closer, err := c.open(name)
	if err != nil {
		return err
	}
	defer closer()
	if err := w.WriteHeader(h); err != nil {
		return err
	}
	n, err := io.Copy(w, io.LimitReader(r, h.Size))
	if err == nil && n < h.Size { // the file has become shorter
		_, err = io.CopyN(w, zeros{}, h.Size-n)
	}
	return err
}

// zeros reads zeros without end.
type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }

// link is a symbolic link that an archive has.
type link struct{ target, name string }

// linkSize is the memory of a link, besides its texts.
const linkSize = 64

// readArchive lists or extracts an archive. No entry leaves the folder. So the links that may lead out of it are made at the end, as in
// busybox: an entry below such a link gets a folder in its place.
func (c *invocation) readArchive(file string, o *arguments) int {
	r := c.stdin()
	if file != "-" && file != "" {
		f, closer, err := c.open(file)
		if err != nil {
			return c.errorf("can't open '%s': %s", file, errText(err))
		}
		defer closer()
		r = f
	}
	if o.has('z') {
		z, err := gzip.NewReader(r)
		if err != nil {
			return c.errorf("invalid magic")
		}
		r = z
	}
	a := archive.NewReader(r)
	code := 0
	var links []link
	kept := 0
	for {
		h, err := a.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return c.errorf("short read or invalid archive: %v", err)
		}
		c.in.step(1)
		name := strings.TrimLeft(path.Clean("/"+h.Name), "/")
		if !wanted(name, o.args) {
			continue
		}
		if o.has('t') || o.has('v') {
			c.printf("%s\n", h.Name)
		}
		switch {
		case o.has('t'):
		case o.has('O'):
			_, err = io.Copy(c.out, a)
		default:
			var later *link
			if later, err = c.extract(a, h, name); later != nil {
				links = append(links, *later)
				kept += len(later.target) + len(later.name) + linkSize
				c.limitInput("tar", kept)
			}
		}
		if err != nil {
			code = c.errorf("can't extract '%s': %s", h.Name, errText(err))
		}
	}
	for _, l := range links {
		if err := c.in.fs.Symlink(l.target, l.name); err != nil {
			code = c.errorf("can't create symlink '%s' to '%s': %s", l.name, l.target, errText(err))
		}
	}
	_, _ = io.Copy(io.Discard, r) // the padding, so that the sender can end
	return code
}

// wanted reports whether an entry is selected by the arguments.
func wanted(name string, args []string) bool {
	for _, a := range args {
		a = strings.TrimLeft(path.Clean("/"+a), "/")
		if name == a || strings.HasPrefix(name, a+"/") {
			return true
		}
	}
	return len(args) == 0
}

// extract extracts an entry of an archive, or returns the link that is made later.
func (c *invocation) extract(a *archive.Reader, h *archive.Header, name string) (later *link, err error) {
	if name == "" {
		return nil, nil
	}
	full := c.path(name)
	if dir := path.Dir(full); dir != "/" {
		if err := c.mkdirAll(dir, 0o755); err != nil {
			return nil, err
		}
	}
	replaces := h.Typeflag == archive.TypeReg || h.Typeflag == archive.TypeSymlink
	if info, err := c.in.fs.Lstat(full); replaces && err == nil && !info.IsDir() {
		_ = c.in.fs.Remove(full) // a link must not lead elsewhere
	}
	switch h.Typeflag {
	case archive.TypeDir:
		return nil, c.mkdirAll(full, fs.FileMode(h.Mode).Perm()|0o700)
	case archive.TypeSymlink:
		if path.IsAbs(h.Linkname) || strings.Contains(h.Linkname, "..") {
			return &link{h.Linkname, full}, nil
		}
		return nil, c.in.fs.Symlink(h.Linkname, full)
	case archive.TypeLink:
		return nil, errors.New("hard links are not supported")
	case archive.TypeReg:
		return nil, c.extractFile(a, h, full)
	}
	return nil, nil
}

// extractFile extracts a file.
func (c *invocation) extractFile(a *archive.Reader, h *archive.Header, name string) error {
	w, closer, err := c.create(name, syscall.O_TRUNC)
	if err != nil {
		return err
	}
	defer closer()
	if _, err := io.Copy(w, a); err != nil {
		return err
	}
	if err := c.in.fs.Chmod(name, fs.FileMode(h.Mode).Perm()); err != nil {
		return err
	}
	return c.in.fs.Chtimes(name, h.ModTime)
}

// gzipProgram compresses or decompresses files, or the standard input.
func gzipProgram(c *invocation) int {
	o, ok := c.options("dcfk123456789n decompress=d stdout=c")
	if !ok {
		return 1
	}
	unpacks := o.has('d') || c.args[0] != "gzip"
	convert := func(w io.Writer, r io.Reader) error {
		if unpacks {
			z, err := gzip.NewReader(r)
			if err != nil {
				return errors.New("invalid magic")
			}
			_, err = io.Copy(w, z)
			return err
		}
		z := gzip.NewWriter(w)
		if _, err := io.Copy(z, r); err != nil {
			return err
		}
		return z.Close()
	}
	return c.inputs(o.args, func(name string, r io.Reader) error {
		if name == "-" || o.has('c') || c.args[0] == "zcat" {
			return convert(c.out, r)
		}
		to := name + ".gz"
		if unpacks {
			if to = strings.TrimSuffix(name, ".gz"); to == name {
				return errors.New("unknown suffix")
			}
		}
		w, closer, err := c.create(to, syscall.O_TRUNC)
		if err != nil {
			return err
		}
		defer closer()
		if err := convert(w, r); err != nil || o.has('k') {
			return err
		}
		return c.in.fs.Remove(c.path(name))
	})
}
