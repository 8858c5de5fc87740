package shell

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func cat(c *invocation) int {
	o, ok := c.options("unbsvetA")
	if !ok {
		return 1
	}
	number := 0
	return c.inputs(o.args, func(_ string, r io.Reader) error {
		if !o.has('n') && !o.has('b') {
			_, err := io.Copy(c.out, r)
			return err
		}
		return c.lines(r, '\n', func(line []byte, ended bool) error {
			if o.has('b') && len(line) == 0 {
				c.printf("\n")
				return nil
			}
			number++
			c.printf("%6d\t%s%s", number, line, map[bool]string{true: "\n"}[ended])
			return c.out.err
		})
	})
}

// count parses the number of head and tail. relative is the sign, if there is one.
func (c *invocation) count(s string) (n int, relative string, ok bool) {
	number := strings.TrimLeft(s, "+-")
	if s != "" && (s[0] == '+' || s[0] == '-') {
		relative = s[:1]
	}
	unit := 1
	switch {
	case strings.HasSuffix(number, "k"), strings.HasSuffix(number, "K"):
		unit, number = 1<<10, number[:len(number)-1]
	case strings.HasSuffix(number, "m"), strings.HasSuffix(number, "M"):
		unit, number = 1<<20, number[:len(number)-1]
	}
	n, err := strconv.Atoi(number)
	if err != nil || n < 0 || n > 1<<40 {
		c.errorf("invalid number '%s'", s)
		return 0, "", false
	}
	return n * unit, relative, true
}

// numbered replaces the first argument -N by -n N.
func numbered(args []string) []string {
	if len(args) > 1 && len(args[1]) > 1 && args[1][0] == '-' && strings.Trim(args[1][1:], "0123456789") == "" {
		return append([]string{args[0], "-n", args[1][1:]}, args[2:]...)
	}
	return args
}

// head prints the beginning of files.
func head(c *invocation) int {
	c.args = numbered(c.args)
	o, ok := c.options("n:c:qv lines=n bytes=c")
	if !ok {
		return 1
	}
	n, relative, flag := 10, "", byte('n')
	for _, f := range []byte("nc") {
		if o.has(f) {
			if n, relative, ok = c.count(o.get(f)); !ok {
				return 1
			}
			flag = f
		}
	}
	first := true
	return c.inputs(o.args, func(name string, r io.Reader) error {
		c.header(o, name, &first)
		switch {
		case relative == "-":
			b, err := c.readAll(r)
			if flag == 'c' {
				_, _ = c.out.Write(b[:max(len(b)-n, 0)])
				return err
			}
			lines := bytes.SplitAfter(b, []byte("\n"))
			if len(lines[len(lines)-1]) == 0 {
				lines = lines[:len(lines)-1]
			}
			for _, l := range lines[:max(len(lines)-n, 0)] {
				_, _ = c.out.Write(l)
			}
			return err
		case flag == 'c':
			_, err := io.CopyN(c.out, r, int64(n))
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return err
		}
		left := n
		if left == 0 {
			return nil
		}
		err := c.lines(r, '\n', func(line []byte, ended bool) error {
			c.printf("%s%s", line, map[bool]string{true: "\n"}[ended])
			if left--; left == 0 {
				return errDone
			}
			return c.out.err
		})
		if err == errDone {
			err = nil
		}
		return err
	})
}

// errDone ends the lines of one file.
var errDone = errors.New("done")

// header writes the name of a file before its content, if there are several files.
func (c *invocation) header(o *arguments, name string, first *bool) {
	if (len(o.args) < 2 || o.has('q')) && !o.has('v') {
		return
	}
	if !*first {
		c.printf("\n")
	}
	*first = false
	if name == "-" {
		name = "standard input"
	}
	c.printf("==> %s <==\n", name)
}

// tail writes the end of files. With -f it goes on with appended data.
func tail(c *invocation) int {
	c.args = numbered(c.args)
	o, ok := c.options("n:c:fFqvs: lines=n bytes=c follow=f retry=F")
	if !ok {
		return 1
	}
	n, relative, flag := 10, "", byte('n')
	for _, f := range []byte("nc") {
		if o.has(f) {
			if n, relative, ok = c.count(o.get(f)); !ok {
				return 1
			}
			flag = f
		}
	}
	follow := o.has('f') || o.has('F')
	first := true
	names := o.args
	if len(names) == 0 {
		names = []string{"-"}
	}
	code := 0
	var followed []*description
	for _, name := range names {
		d := c.in.files[0]
		if name != "-" {
			var err error
			d, err = c.in.openIn(name, syscall.O_RDONLY, 0)
			for err != nil && o.has('F') {
				if c.in.process.sleep(c.in.ctx, time.Second) != nil {
					c.in.step(0)
				}
				d, err = c.in.openIn(name, syscall.O_RDONLY, 0)
			}
			if err != nil {
				code = c.fileError(name, err)
				continue
			}
			defer d.release()
		}
		c.header(o, name, &first)
		if err := c.tailOf(c.in.reader(d), n, relative, flag); err != nil {
			code = c.fileError(name, err)
			continue
		}
		if d != nil && d.file != nil {
			followed = append(followed, d)
		}
	}
	if follow && len(followed) > 0 {
		c.follow(followed)
	}
	return code
}

// tailOf writes the end of an input. A relative number counts from the beginning.
func (c *invocation) tailOf(r io.Reader, n int, relative string, flag byte) error {
	if relative == "+" {
		buffered := bufio.NewReader(r)
		for i := 1; i < n; i++ {
			if flag == 'c' {
				if _, err := buffered.ReadByte(); err != nil {
					break
				}
				continue
			}
			c.in.step(1)
			if _, err := buffered.ReadBytes('\n'); err != nil {
				break
			}
		}
		_, err := io.Copy(c.out, buffered)
		return err
	}
	var end []byte
	lines, size := [][]byte{}, 0
	buffer := make([]byte, 32<<10)
	if flag == 'c' {
		for {
			k, err := r.Read(buffer)
			if end = append(end, buffer[:k]...); len(end) > n {
				end = slices.Clone(end[len(end)-n:])
			}
			if err != nil {
				_, _ = c.out.Write(end)
				if errors.Is(err, io.EOF) {
					err = nil
				}
				return err
			}
		}
	}
	err := c.lines(r, '\n', func(line []byte, ended bool) error {
		l := slices.Clone(line)
		if ended {
			l = append(l, '\n')
		}
		if lines, size = append(lines, l), size+len(l); len(lines) > n {
			size -= len(lines[0])
			lines = lines[1:]
		}
		if size > 4*c.in.limits.Memory {
			panic(&limitError{"tail: the lines have more than " + strconv.Itoa(4*c.in.limits.Memory) + " bytes"})
		}
		return nil
	})
	for _, l := range lines {
		_, _ = c.out.Write(l)
	}
	return err
}

// follow writes the data that is appended to files, until the process ends.
func (c *invocation) follow(files []*description) {
	for {
		var changes []<-chan struct{}
		for _, d := range files {
			if f, ok := d.file.(interface{ Changes() <-chan struct{} }); ok {
				if changed := f.Changes(); changed != nil {
					changes = append(changes, changed)
				}
			}
		}
		for _, d := range files {
			_, _ = io.Copy(c.out, c.in.reader(d))
		}
		if len(changes) == 1 {
			select {
			case <-changes[0]:
			case <-c.in.ctx.Done():
			}
		} else if len(changes) == 0 {
			<-c.in.ctx.Done()
		} else {
			_ = c.in.process.sleep(c.in.ctx, time.Second)
		}
		c.in.process.waited()
		c.in.step(1)
	}
}

// wc counts lines, words and bytes.
func wc(c *invocation) int {
	o, ok := c.options("lwcmL lines=l words=w bytes=c chars=m")
	if !ok {
		return 1
	}
	flags := "lwc"
	if len(o.options) > 0 {
		flags = ""
		for _, f := range "lwcmL" {
			if o.has(byte(f)) {
				flags += string(f)
			}
		}
	}
	var total [5]int
	show := func(counts [5]int, name string) {
		var parts []string
		for _, f := range flags {
			n := strconv.Itoa(counts[strings.IndexRune("lwcmL", f)])
			if len(flags) > 1 || len(o.args) > 1 {
				n = fmt.Sprintf("%9s", n)
			}
			parts = append(parts, n)
		}
		if name != "-" || len(o.args) > 0 {
			parts = append(parts, name)
		}
		c.printf("%s\n", strings.Join(parts, " "))
	}
	code := c.inputs(o.args, func(name string, r io.Reader) error {
		var counts [5]int
		inWord := false
		line := 0
		buffer := make([]byte, 32<<10)
		for {
			n, err := r.Read(buffer)
			for _, b := range buffer[:n] {
				counts[2]++
				if b&0xc0 != 0x80 {
					counts[3]++
					line++
				}
				if b == '\n' {
					counts[0]++
					counts[4] = max(counts[4], line-1)
					line = 0
				}
				space := b == ' ' || b >= '\t' && b <= '\r'
				if !space && !inWord {
					counts[1]++
				}
				inWord = !space
			}
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return err
			}
		}
		counts[4] = max(counts[4], line)
		for i := range counts {
			total[i] += counts[i]
		}
		total[4] = max(total[4]-counts[4], counts[4])
		show(counts, name)
		return nil
	})
	if len(o.args) > 1 {
		show(total, "total")
	}
	return code
}

// seq prints numbers.
func seq(c *invocation) int {
	args := c.args[1:]
	separator, width := "\n", false
	for len(args) > 0 && len(args[0]) > 1 && args[0][0] == '-' && !(args[0][1] >= '0' && args[0][1] <= '9' || args[0][1] == '.') {
		switch {
		case args[0] == "-w":
			width = true
		case args[0] == "-s" && len(args) > 1:
			separator, args = args[1], args[1:]
		default:
			return c.errorf("unrecognized option: %s", args[0])
		}
		args = args[1:]
	}
	first, step, last := 1.0, 1.0, 0.0
	var numbers []float64
	precision, longest := 0, 0
	for _, a := range args {
		n, err := strconv.ParseFloat(a, 64)
		if err != nil {
			return c.errorf("invalid number '%s'", a)
		}
		if _, fraction, ok := strings.Cut(a, "."); ok {
			precision = max(precision, len(fraction))
		}
		numbers = append(numbers, n)
		longest = max(longest, len(a))
	}
	switch len(numbers) {
	case 1:
		last = numbers[0]
	case 2:
		first, last = numbers[0], numbers[1]
	case 3:
		first, step, last = numbers[0], numbers[1], numbers[2]
	default:
		return c.errorf("usage: seq [-w] [-s SEP] [FIRST [INC]] LAST")
	}
	if step == 0 || precision > 20 {
		return c.errorf("invalid increment")
	}
	any := false
	for i := 0; ; i++ {
		n := first + float64(i)*step
		if step > 0 && n > last+1e-9 || step < 0 && n < last-1e-9 {
			break
		}
		c.in.step(1)
		if any {
			c.printf("%s", separator)
		}
		any = true
		if width {
			c.printf("%0*.*f", longest, precision, n)
		} else {
			c.printf("%.*f", precision, n)
		}
		if c.out.err != nil {
			return 0
		}
	}
	if any {
		c.printf("\n")
	}
	return 0
}

func tee(c *invocation) int {
	o, ok := c.options("ai append=a")
	if !ok {
		return 1
	}
	flag := syscall.O_TRUNC
	if o.has('a') {
		flag = syscall.O_APPEND
	}
	writers := []io.Writer{c.out}
	code := 0
	for _, name := range o.args {
		w, closer, err := c.create(name, flag)
		if err != nil {
			code = c.fileError(name, err)
			continue
		}
		defer closer()
		writers = append(writers, w)
	}
	if _, err := io.Copy(io.MultiWriter(writers...), c.stdin()); err != nil {
		code = c.errorf("%s", errText(err))
	}
	return code
}

func yes(c *invocation) int {
	text := "y"
	if len(c.args) > 1 {
		text = strings.Join(c.args[1:], " ")
	}
	for c.out.err == nil {
		c.printf("%s\n", text)
	}
	return 0
}

func basename(c *invocation) int {
	if len(c.args) < 2 {
		return c.errorf("missing operand")
	}
	name := path.Base(c.args[1])
	if len(c.args) > 2 && name != c.args[2] {
		name = strings.TrimSuffix(name, c.args[2])
	}
	c.printf("%s\n", name)
	return 0
}

func dirname(c *invocation) int {
	if len(c.args) < 2 {
		return c.errorf("missing operand")
	}
	for _, name := range c.args[1:] {
		c.printf("%s\n", path.Dir(strings.TrimRight(name, "/")+map[bool]string{true: "/"}[strings.Trim(name, "/") == "" && name != ""]))
	}
	return 0
}
