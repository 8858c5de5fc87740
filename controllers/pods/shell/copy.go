package shell

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
	"syscall"
)

// target returns the name that a file gets in cp and mv: TO, or TO/NAME if TO is a folder.
func (c *invocation) target(name, to string, several bool) (string, error) {
	info, err := c.in.fs.Stat(c.path(to))
	if err == nil && info.IsDir() {
		return strings.TrimSuffix(to, "/") + "/" + path.Base(c.path(name)), nil
	}
	if several {
		if err == nil {
			err = syscall.ENOTDIR
		}
		return "", err
	}
	return to, nil
}

func cp(c *invocation) int {
	o, ok := c.options("rRafpdLPvnT recursive=r archive=a force=f")
	if !ok {
		return 1
	}
	if len(o.args) < 2 {
		return c.errorf("missing operand")
	}
	to := o.args[len(o.args)-1]
	code := 0
	for _, name := range o.args[:len(o.args)-1] {
		target, err := c.target(name, to, len(o.args) > 2)
		if err != nil {
			return c.fileError(to, err)
		}
		code = max(code, c.copyAll(name, target, o, 0))
	}
	return code
}

// copyAll copies a file, or a folder with everything below it.
func (c *invocation) copyAll(name, to string, o *arguments, depth int) (code int) {
	recursive := o.has('r') || o.has('R') || o.has('a')
	stat := c.in.fs.Stat
	if (recursive || o.has('d') || o.has('P')) && !o.has('L') {
		stat = c.in.fs.Lstat
	}
	info, err := stat(c.path(name))
	if err != nil {
		return c.errorf("can't stat '%s': %s", name, errText(err))
	}
	if strings.HasPrefix(c.path(to)+"/", c.path(name)+"/") && (info.IsDir() || c.path(to) == c.path(name)) {
		return c.errorf("'%s' and '%s' are the same, or one is in the other", name, to)
	}
	c.in.step(1)
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		target, err := c.in.fs.Readlink(c.path(name))
		if err == nil {
			_ = c.in.fs.Remove(c.path(to))
			err = c.in.fs.Symlink(target, c.path(to))
		}
		if err != nil {
			return c.fileError(to, err)
		}
	case info.IsDir():
		if !recursive {
			return c.errorf("omitting directory '%s'", name)
		}
		c.in.nest()
		c.in.depth++
		defer func() { c.in.depth-- }()
		if err := c.in.fs.Mkdir(c.path(to), info.Mode().Perm()); err != nil && !errors.Is(err, fs.ErrExist) {
			return c.fileError(to, err)
		}
		entries, err := c.in.fs.ReadDir(c.path(name))
		if err != nil {
			return c.fileError(name, err)
		}
		for _, e := range entries {
			code = max(code, c.copyAll(name+"/"+e.Name(), to+"/"+e.Name(), o, depth+1))
		}
		return code
	default:
		return c.copyFile(name, to, info, o)
	}
	return 0
}

func (c *invocation) copyFile(name, to string, info fs.FileInfo, o *arguments) int {
	if _, err := c.in.fs.Stat(c.path(to)); err == nil && o.has('n') {
		return 0
	}
	r, closer, err := c.open(name)
	if err != nil {
		return c.fileError(name, err)
	}
	defer closer()
	w, closer, err := c.create(to, syscall.O_TRUNC)
	if err != nil {
		return c.errorf("can't create '%s': %s", to, errText(err))
	}
	defer closer()
	if _, err := io.Copy(w, r); err != nil {
		return c.fileError(to, err)
	}
	_ = c.in.fs.Chmod(c.path(to), info.Mode())
	if o.has('p') || o.has('a') {
		_ = c.in.fs.Chtimes(c.path(to), info.ModTime())
	}
	return 0
}

// mv renames files. Between volumes, it copies and removes them.
func mv(c *invocation) int {
	o, ok := c.options("fnvi force=f")
	if !ok {
		return 1
	}
	if len(o.args) < 2 {
		return c.errorf("missing operand")
	}
	to := o.args[len(o.args)-1]
	code := 0
	for _, name := range o.args[:len(o.args)-1] {
		target, err := c.target(name, to, len(o.args) > 2)
		if err == nil {
			err = c.in.fs.Rename(c.path(name), c.path(target))
		}
		if errors.Is(err, syscall.EXDEV) {
			all := &arguments{options: []option{{name: 'a'}}}
			if code = max(code, c.copyAll(name, target, all, 0)); code == 0 {
				if info, err := c.in.fs.Lstat(c.path(name)); err == nil {
					code = c.removeAll(name, info)
				}
			}
			continue
		}
		if err != nil {
			code = c.errorf("can't rename '%s': %s", name, errText(err))
		}
	}
	return code
}

// ln makes symbolic links.
func ln(c *invocation) int {
	o, ok := c.options("sfnvT symbolic=s force=f")
	if !ok {
		return 1
	}
	if !o.has('s') {
		return c.errorf("hard links are not supported")
	}
	if len(o.args) < 1 {
		return c.errorf("missing operand")
	}
	to := path.Base(o.args[0])
	if len(o.args) > 1 {
		to = o.args[1]
	}
	if !o.has('n') && !o.has('T') {
		if target, err := c.target(o.args[0], to, false); err == nil {
			to = target
		}
	}
	if o.has('f') {
		_ = c.in.fs.Remove(c.path(to))
	}
	if err := c.in.fs.Symlink(o.args[0], c.path(to)); err != nil {
		return c.fileError(to, err)
	}
	return 0
}

// dd copies blocks: if=, of=, bs= and count=.
func dd(c *invocation) int {
	from, to, block, blocks := "-", "", 512, -1
	for _, arg := range c.args[1:] {
		key, value, _ := strings.Cut(arg, "=")
		var ok = true
		switch key {
		case "if":
			from = value
		case "of":
			to = value
		case "bs":
			block, _, ok = c.count(value)
		case "count":
			blocks, _, ok = c.count(value)
		case "status", "conv":
		default:
			return c.errorf("unrecognized operand '%s'", arg)
		}
		if !ok || block < 1 {
			return 1
		}
	}
	r, closer, err := c.open(from)
	if err != nil {
		return c.fileError(from, err)
	}
	defer closer()
	out := c.out
	if to != "" {
		w, closer, err := c.create(to, syscall.O_TRUNC)
		if err != nil {
			return c.fileError(to, err)
		}
		defer closer()
		out = w
	}
	if blocks >= 0 {
		if blocks > 0 && block > (1<<40)/blocks {
			return c.errorf("the size is too large")
		}
		r = io.LimitReader(r, int64(block)*int64(blocks))
	}
	n, err := io.Copy(out, r)
	if err != nil {
		return c.errorf("%s", errText(err))
	}
	fmt.Fprintf(c.err, "%d+%d records in\n%d+%d records out\n", n/int64(block), oneIf(n%int64(block) != 0), n/int64(block), oneIf(n%int64(block) != 0))
	return 0
}
