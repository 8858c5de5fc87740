package shell

import (
	"errors"
	"io/fs"
	"math/rand/v2"
	"path"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// walk calls a function with a file and everything below it, by their names. The function reports whether to go on below a
// folder. Symbolic links are not followed. The error of a file is written.
func (c *invocation) walk(name string, each func(name string, info fs.FileInfo) bool) (code int) {
	info, err := c.in.fs.Lstat(c.path(name))
	if err != nil {
		return c.fileError(name, err)
	}
	c.in.step(1)
	if !each(name, info) || !info.IsDir() {
		return 0
	}
	c.in.nest()
	c.in.depth++
	defer func() { c.in.depth-- }()
	entries, err := c.in.fs.ReadDir(c.path(name))
	if err != nil {
		return c.fileError(name, err)
	}
	for _, e := range entries {
		code = max(code, c.walk(strings.TrimSuffix(name, "/")+"/"+e.Name(), each))
	}
	return code
}

// mkdir makes folders.
func mkdir(c *invocation) int {
	o, ok := c.options("pm:v parents=p mode=m")
	if !ok {
		return 1
	}
	perm := fs.FileMode(0o755)
	if o.has('m') {
		n, err := strconv.ParseUint(o.get('m'), 8, 32)
		if err != nil {
			return c.errorf("invalid mode '%s'", o.get('m'))
		}
		perm = fs.FileMode(n).Perm()
	}
	if len(o.args) == 0 {
		return c.errorf("missing operand")
	}
	code := 0
	for _, name := range o.args {
		var err error
		if o.has('p') {
			err = c.mkdirAll(c.path(name), perm)
		} else {
			err = c.in.fs.Mkdir(c.path(name), perm)
		}
		if err != nil {
			code = c.errorf("can't create directory '%s': %s", name, errText(err))
		}
	}
	return code
}

// mkdirAll makes a folder and the folders above it.
func (c *invocation) mkdirAll(name string, perm fs.FileMode) error {
	at := ""
	for e := range strings.SplitSeq(strings.Trim(name, "/"), "/") {
		at += "/" + e
		if err := c.in.fs.Mkdir(at, perm); err != nil {
			if info, e := c.in.fs.Stat(at); e != nil || !info.IsDir() {
				return err
			}
		}
	}
	return nil
}

func rmdir(c *invocation) int {
	code := 0
	for _, name := range c.args[1:] {
		info, err := c.in.fs.Lstat(c.path(name))
		if err == nil && !info.IsDir() {
			err = syscall.ENOTDIR
		}
		if err == nil {
			err = c.in.fs.Remove(c.path(name))
		}
		if err != nil {
			code = c.errorf("'%s': %s", name, errText(err))
		}
	}
	return code
}

func rm(c *invocation) int {
	o, ok := c.options("rRfivd recursive=r force=f")
	if !ok {
		return 1
	}
	if len(o.args) == 0 && !o.has('f') {
		return c.errorf("missing operand")
	}
	code := 0
	for _, name := range o.args {
		info, err := c.in.fs.Lstat(c.path(name))
		switch {
		case err != nil && o.has('f') && errors.Is(err, fs.ErrNotExist):
		case err != nil:
			code = c.errorf("can't remove '%s': %s", name, errText(err))
		case c.path(name) == "/" || path.Base(name) == "." || path.Base(name) == "..":
			code = c.errorf("refusing to remove '%s'", name)
		case info.IsDir() && !o.has('r') && !o.has('R'):
			code = c.errorf("'%s' is a directory", name)
		default:
			code = max(code, c.removeAll(name, info))
		}
	}
	return code
}

// removeAll removes a file, or a folder with everything below it.
func (c *invocation) removeAll(name string, info fs.FileInfo) (code int) {
	c.in.step(1)
	if info.IsDir() {
		c.in.nest()
		c.in.depth++
		defer func() { c.in.depth-- }()
		entries, err := c.in.fs.ReadDir(c.path(name))
		if err != nil {
			return c.fileError(name, err)
		}
		for _, e := range entries {
			below := strings.TrimSuffix(name, "/") + "/" + e.Name()
			if info, err := c.in.fs.Lstat(c.path(below)); err == nil {
				code = max(code, c.removeAll(below, info))
			}
		}
	}
	if err := c.in.fs.Remove(c.path(name)); err != nil {
		return c.errorf("can't remove '%s': %s", name, errText(err))
	}
	return code
}

// touch creates files, and sets the time of their last change.
func touch(c *invocation) int {
	o, ok := c.options("acmd:t:r: no-create=c date=d reference=r")
	if !ok {
		return 1
	}
	at := time.Now()
	if o.has('d') {
		t, ok := parseDate(o.get('d'), at)
		if !ok {
			return c.errorf("invalid date '%s'", o.get('d'))
		}
		at = t
	}
	if o.has('r') {
		info, err := c.in.fs.Stat(c.path(o.get('r')))
		if err != nil {
			return c.fileError(o.get('r'), err)
		}
		at = info.ModTime()
	}
	code := 0
	for _, name := range o.args {
		if _, err := c.in.fs.Stat(c.path(name)); err != nil {
			if o.has('c') {
				continue
			}
			_, closer, err := c.create(name, 0)
			if err != nil {
				code = c.fileError(name, err)
				continue
			}
			closer()
		}
		if err := c.in.fs.Chtimes(c.path(name), at); err != nil {
			code = c.fileError(name, err)
		}
	}
	return code
}

// changeMode returns a mode after a change as 644 or u+x,go-w.
func changeMode(mode fs.FileMode, change string) (fs.FileMode, bool) {
	if n, err := strconv.ParseUint(change, 8, 32); err == nil {
		return fs.FileMode(n).Perm(), true
	}
	for part := range strings.SplitSeq(change, ",") {
		i := strings.IndexAny(part, "+-=")
		if i < 0 {
			return 0, false
		}
		var who, bits fs.FileMode
		for _, w := range part[:i] {
			switch w {
			case 'u':
				who |= 0o700
			case 'g':
				who |= 0o070
			case 'o':
				who |= 0o007
			case 'a':
				who |= 0o777
			default:
				return 0, false
			}
		}
		if who == 0 {
			who = 0o777
		}
		for _, b := range part[i+1:] {
			switch b {
			case 'r':
				bits |= 0o444
			case 'w':
				bits |= 0o222
			case 'x':
				bits |= 0o111
			case 'X':
				if mode.IsDir() || mode&0o111 != 0 {
					bits |= 0o111
				}
			case 's', 't':
			default:
				return 0, false
			}
		}
		switch part[i] {
		case '+':
			mode |= who & bits
		case '-':
			mode &^= who & bits
		case '=':
			mode = mode&^who | who&bits
		}
	}
	return mode.Perm(), true
}

// chmod changes the permissions of files.
func chmod(c *invocation) int {
	args := c.args[1:]
	recursive := false
	for len(args) > 0 && (args[0] == "-R" || args[0] == "-f" || args[0] == "-v") {
		recursive = recursive || args[0] == "-R"
		args = args[1:]
	}
	if len(args) < 2 {
		return c.errorf("missing operand")
	}
	code := 0
	change := func(name string, info fs.FileInfo) bool {
		mode, ok := changeMode(info.Mode(), args[0])
		if !ok {
			code = c.errorf("invalid mode '%s'", args[0])
			return false
		}
		if err := c.in.fs.Chmod(c.path(name), mode); err != nil {
			code = c.fileError(name, err)
		}
		return recursive
	}
	for _, name := range args[1:] {
		code = max(code, c.walk(name, change))
	}
	return code
}

// chown checks that the files exist. Files have no owner.
func chown(c *invocation) int {
	o, ok := c.options("Rhfv recursive=R")
	if !ok {
		return 1
	}
	if len(o.args) < 2 {
		return c.errorf("missing operand")
	}
	code := 0
	for _, name := range o.args[1:] {
		if _, err := c.in.fs.Lstat(c.path(name)); err != nil {
			code = c.fileError(name, err)
		}
	}
	return code
}

func readlink(c *invocation) int {
	o, ok := c.options("fen canonicalize=f")
	if !ok {
		return 1
	}
	code := 0
	for _, name := range o.args {
		if o.has('f') || o.has('e') {
			c.printf("%s\n", c.resolve(name))
			continue
		}
		target, err := c.in.fs.Readlink(c.path(name))
		if err != nil {
			code = 1
			continue
		}
		c.printf("%s\n", target)
	}
	return code
}

// resolve returns a path without symbolic links, as far as the files exist.
func (c *invocation) resolve(name string) string {
	rest := strings.Split(strings.Trim(c.path(name), "/"), "/")
	at := "/"
	for links := 0; len(rest) > 0; {
		next := path.Join(at, rest[0])
		rest = rest[1:]
		if target, err := c.in.fs.Readlink(next); err == nil && links < 40 {
			links++
			full := absolute(at, target)
			rest = append(strings.Split(strings.Trim(full, "/"), "/"), rest...)
			at = "/"
			continue
		}
		at = next
	}
	return at
}

func realpath(c *invocation) int {
	code := 0
	for _, name := range c.args[1:] {
		where := c.resolve(name)
		if _, err := c.in.stat(path.Dir(where)); err != nil {
			code = c.fileError(name, err)
			continue
		}
		c.printf("%s\n", where)
	}
	return code
}

// mktemp creates a file or a folder with a new name.
func mktemp(c *invocation) int {
	o, ok := c.options("dp:tuq directory=d tmpdir=p")
	if !ok {
		return 1
	}
	template := "tmp.XXXXXX"
	if len(o.args) > 0 {
		template = o.args[0]
	} else if !o.has('p') {
		o.options = append(o.options, option{'p', "/tmp"})
	}
	x := len(template) - len(strings.TrimRight(template, "X"))
	if x < 3 {
		return c.errorf("too few X's in template '%s'", template)
	}
	if dir := o.get('p'); dir != "" {
		template = dir + "/" + template
	}
	for range 100 {
		suffix := make([]byte, x)
		for i := range suffix {
			suffix[i] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"[rand.IntN(62)]
		}
		name := template[:len(template)-x] + string(suffix)
		var err error
		if o.has('d') {
			err = c.in.fs.Mkdir(c.path(name), 0o700)
		} else {
			f, e := c.in.fs.OpenFile(c.path(name), syscall.O_RDWR|syscall.O_CREAT|syscall.O_EXCL, 0o600)
			if err = e; err == nil {
				_ = f.Close()
			}
		}
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return c.fileError(name, err)
		}
		c.printf("%s\n", name)
		return 0
	}
	return c.errorf("no free name")
}

func truncate(c *invocation) int {
	o, ok := c.options("cs: size=s no-create=c")
	if !ok {
		return 1
	}
	size, relative, ok := c.count(o.get('s'))
	if !ok || relative != "" {
		return 1
	}
	code := 0
	for _, name := range o.args {
		f, err := c.in.fs.OpenFile(c.path(name), syscall.O_WRONLY|syscall.O_CREAT, 0o644)
		if err == nil {
			err = f.Truncate(int64(size))
			_ = f.Close()
		}
		if err != nil {
			code = c.fileError(name, err)
		}
	}
	return code
}
