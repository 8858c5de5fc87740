package shell

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"syscall"
)

// defaultPath is the PATH of a container without one.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// binFolders are the folders of the programs of this package.
var binFolders = []string{"/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin"}

// invocation is a running program.
type invocation struct {
	in     *interpreter
	called string   // the name as it was called
	args   []string // the first is the name, without a path
	out    *boundWriter
	err    io.Writer
}

// programs are the programs, by their names. They return the exit code.
var programs map[string]func(c *invocation) int

// Programs returns the names of the programs, sorted.
func Programs() []string {
	names := make([]string, 0, len(programs))
	for name := range programs {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// errorf writes a message with the name of the program, and returns the exit code 1.
func (c *invocation) errorf(format string, args ...any) int {
	fmt.Fprintf(c.err, c.args[0]+": "+format+"\n", args...)
	return 1
}

// fileError writes the error of a file, and returns the exit code 1.
func (c *invocation) fileError(name string, err error) int {
	return c.errorf("%s: %s", name, errText(err))
}

// printf writes to the standard output.
func (c *invocation) printf(format string, args ...any) { fmt.Fprintf(c.out, format, args...) }

// stdin returns the standard input.
func (c *invocation) stdin() io.Reader { return c.in.stdin() }

// open opens a file for reading. The name - is the standard input.
func (c *invocation) open(name string) (r io.Reader, closer func(), err error) {
	if name == "-" {
		return c.stdin(), func() {}, nil
	}
	d, err := c.in.openIn(name, syscall.O_RDONLY, 0)
	if err != nil {
		return nil, nil, err
	}
	if d.file != nil {
		if info, err := d.file.Stat(); err == nil && info.IsDir() {
			d.release()
			return nil, nil, syscall.EISDIR
		}
	}
	return c.in.reader(d), d.release, nil
}

// create opens a file for writing.
func (c *invocation) create(name string, flag int) (w *boundWriter, closer func(), err error) {
	d, err := c.in.openIn(name, syscall.O_WRONLY|syscall.O_CREAT|flag, 0o644)
	if err != nil {
		return nil, nil, err
	}
	return &boundWriter{in: c.in, d: d}, d.release, nil
}

// inputs calls a function with each file, or with the standard input if there is none. The exit code is 1 if a file cannot
// be opened or read.
func (c *invocation) inputs(names []string, each func(name string, r io.Reader) error) (code int) {
	if len(names) == 0 {
		names = []string{"-"}
	}
	for _, name := range names {
		r, closer, err := c.open(name)
		if err == nil {
			err = each(name, r)
			closer()
		}
		if errors.Is(err, errStop) {
			return code
		}
		if err != nil {
			code = c.fileError(name, err)
		}
	}
	return code
}

// errStop ends inputs without an error.
var errStop = errors.New("stop")

// lines calls a function with each line, without its end. The function returns errStop to end.
func (c *invocation) lines(r io.Reader, delimiter byte, each func(line []byte, ended bool) error) error {
	var rest []byte
	buffer := make([]byte, 32<<10)
	for {
		n, err := r.Read(buffer)
		data := buffer[:n]
		for {
			i := bytes.IndexByte(data, delimiter)
			if i < 0 {
				break
			}
			line := data[:i]
			if len(rest) > 0 {
				line = append(rest, line...)
				rest = nil
			}
			c.in.step(1 + len(line)>>10)
			if err := each(line, true); err != nil {
				return err
			}
			data = data[i+1:]
		}
		if rest = append(rest, data...); len(rest) > c.in.limits.Memory {
			panic(&limitError{"a line has more than " + strconv.Itoa(c.in.limits.Memory) + " bytes"})
		}
		if errors.Is(err, io.EOF) {
			if len(rest) > 0 {
				return each(rest, false)
			}
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// readAll reads an input of at most the memory of a process.
func (c *invocation) readAll(r io.Reader) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(r, int64(c.inputLimit())+1))
	c.limitInput(c.args[0], len(b))
	return b, err
}

// inputLimit is the number of bytes of its input that a program may keep.
func (c *invocation) inputLimit() int { return 4 * c.in.limits.Memory }

// limitInput ends the script if a program keeps more of its input than it may.
func (c *invocation) limitInput(program string, size int) {
	if limit := c.inputLimit(); size > limit {
		panic(&limitError{program + ": the input has more than " + strconv.Itoa(limit) + " bytes"})
	}
}

// path returns the absolute path of a name.
func (c *invocation) path(name string) string { return c.in.pathOf(name) }

// run executes a command in the same process, and returns its exit code.
func (c *invocation) run(args []string) int {
	c.in.nest()
	sub := c.in.fork(c.in.process, c.in.ctx)
	defer sub.files.closeAll()
	return sub.program(args, false)
}
