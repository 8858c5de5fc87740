package shell

import (
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
)

// modeText returns a mode as ls prints it.
func modeText(m fs.FileMode) string {
	kind := "-"
	switch {
	case m.IsDir():
		kind = "d"
	case m&fs.ModeSymlink != 0:
		kind = "l"
	case m&fs.ModeCharDevice != 0:
		kind = "c"
	}
	return kind + m.Perm().String()[1:]
}

// ls lists files.
func ls(c *invocation) int {
	o, ok := c.options("alA1dhRrtSiFnpLCsu all=a almost-all=A recursive=R directory=d human-readable=h color=C")
	if !ok {
		return 2
	}
	names := o.args
	if len(names) == 0 {
		names = []string{"."}
	}
	code := 0
	var files, folders []string
	for _, name := range names {
		info, err := c.lsInfo(name, o)
		if err != nil {
			code = c.fileError(name, err)
			continue
		}
		if info.IsDir() && !o.has('d') {
			folders = append(folders, name)
		} else {
			files = append(files, name)
		}
	}
	c.list("", files, o)
	for i, name := range folders {
		if len(names) > 1 || o.has('R') {
			if i > 0 || len(files) > 0 {
				c.printf("\n")
			}
			c.printf("%s:\n", name)
		}
		code = max(code, c.listFolder(name, o))
	}
	return code
}

func (c *invocation) lsInfo(name string, o *arguments) (fs.FileInfo, error) {
	if o.has('l') || o.has('d') {
		if info, err := c.in.fs.Lstat(c.path(name)); err == nil {
			return info, nil
		}
	}
	return c.in.stat(c.path(name))
}

// listFolder lists the files in a folder and, with -R, in the folders below it.
func (c *invocation) listFolder(name string, o *arguments) (code int) {
	entries, err := c.in.fs.ReadDir(c.path(name))
	if err != nil {
		return c.fileError(name, err)
	}
	var names, below []string
	if o.has('a') {
		names = append(names, ".", "..")
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") && !o.has('a') && !o.has('A') {
			continue
		}
		names = append(names, e.Name())
		if e.IsDir() {
			below = append(below, strings.TrimSuffix(name, "/")+"/"+e.Name())
		}
	}
	if o.has('l') {
		c.printf("total %d\n", 0)
	}
	c.list(name, names, o)
	if o.has('R') {
		c.in.nest()
		c.in.depth++
		for _, b := range below {
			c.printf("\n%s:\n", b)
			code = max(code, c.listFolder(b, o))
		}
		c.in.depth--
	}
	return code
}

// list prints files of a folder.
func (c *invocation) list(dir string, names []string, o *arguments) {
	type item struct {
		name string
		info fs.FileInfo
	}
	var items []item
	for _, n := range names {
		full := n
		if dir != "" {
			full = dir + "/" + n
		}
		info, err := c.in.fs.Lstat(c.path(full))
		if err != nil {
			info, err = c.in.stat(c.path(full))
		}
		if err == nil {
			items = append(items, item{n, info})
		}
	}
	slices.SortStableFunc(items, func(a, b item) int {
		switch {
		case o.has('t'):
			return b.info.ModTime().Compare(a.info.ModTime())
		case o.has('S'):
			return int(b.info.Size() - a.info.Size())
		}
		return strings.Compare(a.name, b.name)
	})
	if o.has('r') {
		slices.Reverse(items)
	}
	who := c.in.process.root.identity
	user, ok := c.userName("/etc/passwd", who.user)
	if !ok || o.has('n') {
		user = strconv.FormatInt(who.user, 10)
	}
	group, ok := c.userName("/etc/group", who.group)
	if !ok || o.has('n') {
		group = strconv.FormatInt(who.group, 10)
	}
	for _, it := range items {
		c.in.step(1)
		name := it.name
		if (o.has('F') || o.has('p')) && it.info.IsDir() {
			name += "/"
		}
		if !o.has('l') {
			c.printf("%s\n", name)
			continue
		}
		size := strconv.FormatInt(it.info.Size(), 10)
		if o.has('h') {
			size = human(it.info.Size())
		}
		if it.info.Mode()&fs.ModeSymlink != 0 {
			full := it.name
			if dir != "" {
				full = dir + "/" + it.name
			}
			target, _ := c.in.fs.Readlink(c.path(full))
			name += " -> " + target
		}
		c.printf("%s %4d %-8s %-8s %9s %s %s\n", modeText(it.info.Mode()), 1, user, group, size, it.info.ModTime().UTC().Format("Jan _2 15:04"), name)
	}
}

// human returns a size with a unit.
func human(n int64) string {
	units, f := "KMGT", float64(n)
	if n < 1024 {
		return strconv.FormatInt(n, 10)
	}
	i := -1
	for f >= 1024 && i < len(units)-1 {
		f /= 1024
		i++
	}
	return fmt.Sprintf("%.1f%c", f, units[i])
}

// statProgram prints the attributes of files.
func statProgram(c *invocation) int {
	o, ok := c.options("c:Lt format=c")
	if !ok {
		return 1
	}
	code := 0
	for _, name := range o.args {
		info, err := c.in.fs.Lstat(c.path(name))
		if err != nil {
			info, err = c.in.stat(c.path(name))
		}
		if err != nil {
			code = c.errorf("can't stat '%s': %s", name, errText(err))
			continue
		}
		kind := "regular file"
		switch m := info.Mode(); {
		case m.IsDir():
			kind = "directory"
		case m&fs.ModeSymlink != 0:
			kind = "symbolic link"
		case m&fs.ModeCharDevice != 0:
			kind = "character special file"
		}
		who := c.in.process.root.identity
		values := map[byte]string{'n': name, 's': strconv.FormatInt(info.Size(), 10), 'a': strconv.FormatUint(uint64(info.Mode().Perm()), 8), 'A': modeText(info.Mode()),
			'F': kind, 'Y': strconv.FormatInt(info.ModTime().Unix(), 10), 'y': info.ModTime().UTC().Format("2006-01-02 15:04:05.000000000 -0700"),
			'u': strconv.FormatInt(who.user, 10), 'g': strconv.FormatInt(who.group, 10), 'h': "1", '%': "%"}
		format := o.get('c')
		if format == "" {
			format = "  File: %n\n  Size: %s\t%F\nAccess: (0%a/%A)\nModify: %y"
		}
		var b strings.Builder
		for i := 0; i < len(format); i++ {
			if format[i] != '%' || i+1 == len(format) {
				b.WriteByte(format[i])
				continue
			}
			i++
			v, ok := values[format[i]]
			if !ok {
				return c.errorf("the format %%%c is not supported", format[i])
			}
			b.WriteString(v)
		}
		c.printf("%s\n", b.String())
	}
	return code
}

// du prints the size of the files below folders.
func du(c *invocation) int {
	o, ok := c.options("shkacmbd: summarize=s human-readable=h bytes=b")
	if !ok {
		return 1
	}
	names := o.args
	if len(names) == 0 {
		names = []string{"."}
	}
	code := 0
	for _, name := range names {
		var size int64
		code = max(code, c.walk(name, func(_ string, info fs.FileInfo) bool {
			size += info.Size()
			return true
		}))
		text := strconv.FormatInt((size+1023)/1024, 10)
		switch {
		case o.has('h'):
			text = human(size)
		case o.has('b'):
			text = strconv.FormatInt(size, 10)
		}
		c.printf("%s\t%s\n", text, name)
	}
	return code
}

func df(c *invocation) int {
	c.printf("Filesystem           1K-blocks      Used Available Use%% Mounted on\nmemory                       0         0         0   0%% /\n")
	return 0
}

func mount(c *invocation) int {
	if len(c.args) > 1 {
		return unsupported(c)
	}
	for line := range strings.Lines(c.in.readSmall("/proc/mounts")) {
		if f := strings.Fields(line); len(f) >= 4 {
			c.printf("%s on %s type %s (%s)\n", f[0], f[1], f[2], f[3])
		}
	}
	return 0
}
