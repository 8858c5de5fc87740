package shell

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"maps"
	"path"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"flyball.dev/controllers/pods/runtime"
)

// stream is an open file, pipe or standard stream. Reads and writes end with the context.
type stream interface {
	read(ctx context.Context, b []byte) (int, error)
	write(ctx context.Context, b []byte) (int, error)
	close()
}

// description is an open stream that several file descriptors share. It is closed with the last of them.
type description struct {
	stream
	refs atomic.Int32
	// file is the file that was opened, or nil.
	file     runtime.File
	terminal *terminal
}

func describe(s stream) *description {
	d := &description{stream: s}
	d.refs.Store(1)
	return d
}

func (d *description) use() *description { d.refs.Add(1); return d }

func (d *description) release() {
	if d.refs.Add(-1) == 0 {
		d.stream.close()
	}
}

// descriptors are the file descriptors of a shell.
type descriptors map[int]*description

// clone returns a copy.
func (f descriptors) clone() descriptors {
	for _, d := range f {
		d.use()
	}
	return maps.Clone(f)
}

// set replaces a descriptor, and takes over the reference. A nil description closes the descriptor.
func (f descriptors) set(n int, d *description) {
	if old := f[n]; old != nil {
		old.release()
	}
	if d == nil {
		delete(f, n)
	} else {
		f[n] = d
	}
}

func (f descriptors) closeAll() {
	for n := range f {
		f.set(n, nil)
	}
}

// fileStream is a file of the container.
type fileStream struct{ runtime.File }

func (f fileStream) read(_ context.Context, b []byte) (int, error)  { return f.File.Read(b) }
func (f fileStream) write(_ context.Context, b []byte) (int, error) { return f.File.Write(b) }
func (f fileStream) close()                                         { _ = f.File.Close() }

// textStream is a constant text, as a here-document.
type textStream struct {
	mu   sync.Mutex
	rest string
}

func (t *textStream) read(_ context.Context, b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.rest == "" {
		return 0, io.EOF
	}
	n := copy(b, t.rest)
	t.rest = t.rest[n:]
	return n, nil
}

func (t *textStream) write(context.Context, []byte) (int, error) { return 0, syscall.EBADF }
func (t *textStream) close()                                     {}

// nullStream is empty, and discards.
type nullStream struct{}

func (nullStream) read(context.Context, []byte) (int, error)      { return 0, io.EOF }
func (nullStream) write(_ context.Context, b []byte) (int, error) { return len(b), nil }
func (nullStream) close()                                         {}

// capture has the output of a command substitution.
type capture struct {
	mu    sync.Mutex
	text  strings.Builder
	limit int
}

func (c *capture) read(context.Context, []byte) (int, error) { return 0, syscall.EBADF }
func (c *capture) close()                                    {}

func (c *capture) write(_ context.Context, b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.text.Len()+len(b) > c.limit {
		return 0, &limitError{"the output of a command substitution has more than " + strconv.Itoa(c.limit) + " bytes"}
	}
	return c.text.Write(b)
}

// outStream is a standard output of the process.
type outStream struct {
	w  io.Writer
	mu *sync.Mutex
}

func (o outStream) read(context.Context, []byte) (int, error) { return 0, syscall.EBADF }
func (o outStream) close()                                    {}

func (o outStream) write(_ context.Context, b []byte) (int, error) {
	if o.w == nil {
		return len(b), nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	n, err := o.w.Write(b)
	if err != nil {
		err = syscall.EPIPE // nobody reads
	}
	return n, err
}

// inStream is the standard input of the process. A goroutine reads it from the first read on.
type inStream struct {
	from io.Reader
	to   *pipe
	once sync.Once
	root *process
}

func (s *inStream) write(context.Context, []byte) (int, error) { return 0, syscall.EBADF }
func (s *inStream) close()                                     {}

func (s *inStream) read(ctx context.Context, b []byte) (int, error) {
	s.once.Do(func() {
		go func() {
			buffer := make([]byte, 4096)
			for {
				n, err := s.from.Read(buffer)
				if n > 0 {
					if _, e := s.to.write(s.root.ctx, buffer[:n]); e != nil {
						return
					}
				}
				if err != nil {
					s.to.closeWriter()
					return
				}
			}
		}()
	})
	n, err := s.to.read(ctx, b)
	s.root.waited()
	return n, err
}

// standardFiles returns the descriptors of the standard streams of a process.
func (p *process) standardFiles(spec *runtime.Process) (files descriptors, closeAll func()) {
	files = descriptors{}
	if spec.TTY {
		t := newTerminal(p, spec.Streams)
		for n := range 3 {
			d := describe(t)
			d.terminal = t
			files[n] = d
		}
		return files, t.end
	}
	in := &pipe{changed: make(chan struct{}), readers: 1, writers: 1}
	if spec.Stdin != nil {
		files[0] = describe(&inStream{from: spec.Stdin, to: in, root: p})
	} else {
		files[0] = describe(nullStream{})
	}
	files[1] = describe(outStream{spec.Stdout, &sync.Mutex{}})
	files[2] = describe(outStream{spec.Stderr, &sync.Mutex{}})
	return files, in.closeReader
}

// descriptorOf returns the number of the descriptor that a name as /dev/stdin or /dev/fd/3 refers to.
func descriptorOf(name string) (n int, ok bool) {
	switch name {
	case "/dev/stdin":
		return 0, true
	case "/dev/stdout":
		return 1, true
	case "/dev/stderr":
		return 2, true
	}
	for _, folder := range []string{"/dev/fd/", "/proc/self/fd/"} {
		if number, found := strings.CutPrefix(name, folder); found {
			n, err := strconv.Atoi(number)
			return n, err == nil && n >= 0
		}
	}
	return 0, false
}

// absolute returns the absolute path of a name.
func absolute(dir, name string) string {
	if !strings.HasPrefix(name, "/") {
		name = dir + "/" + name
	}
	return path.Clean(name)
}

// openIn opens a file of the container, or a descriptor by its name.
func (in *interpreter) openIn(name string, flag int, perm fs.FileMode) (*description, error) {
	if name == "" {
		return nil, syscall.ENOENT
	}
	name = absolute(in.dir, name)
	if n, ok := descriptorOf(name); ok {
		if d := in.files[n]; d != nil {
			return d.use(), nil
		}
		return nil, syscall.ENOENT
	}
	if name == "/dev/tty" {
		for _, d := range in.files {
			if d.terminal != nil {
				return d.use(), nil
			}
		}
		return nil, syscall.ENXIO
	}
	f, err := in.fs.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	d := describe(fileStream{f})
	d.file = f
	return d, nil
}

// errText returns the text of an error as the C library has it.
func errText(err error) string {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		err = pe.Err
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = syscall.ENOENT
	case errors.Is(err, fs.ErrExist):
		err = syscall.EEXIST
	case errors.Is(err, fs.ErrPermission):
		err = syscall.EACCES
	}
	text := err.Error()
	if _, ok := errors.AsType[syscall.Errno](err); ok && text != "" {
		text = strings.ToUpper(text[:1]) + text[1:]
	}
	return text
}
