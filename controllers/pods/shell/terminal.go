package shell

import (
	"bytes"
	"context"
	"io"
	"sync"
	"syscall"
	"unicode/utf8"

	"flyball.dev/controllers/pods/runtime"
)

// terminal is a terminal: it echoes the input, gives it to the process line by line, and turns Ctrl-C into a
// signal. A client has set its own terminal to raw mode.
type terminal struct {
	root *process
	out  io.Writer

	mu        sync.Mutex
	line      []byte   // that is being typed
	lines     [][]byte // that nobody has read; an empty one is the end of a file
	ended     bool     // the client has gone
	changed   chan struct{}
	interrupt func()
	size      runtime.TerminalSize

	writing sync.Mutex // held while text is written
	stop    chan struct{}
	done    sync.WaitGroup
}

// maxTyped bounds the input that is typed ahead.
const maxTyped = 1 << 20

// newTerminal returns the terminal of a process. Goroutines take the keys and the sizes from now on.
func newTerminal(p *process, s runtime.Streams) *terminal {
	t := &terminal{root: p, out: s.Stdout, changed: make(chan struct{}), stop: make(chan struct{})}
	if t.out == nil {
		t.out = io.Discard
	}
	if s.Stdin == nil {
		t.ended = true
	} else {
		go t.type_(s.Stdin)
	}
	if s.Resize != nil {
		t.done.Go(func() {
			for {
				select {
				case size, ok := <-s.Resize:
					if !ok {
						return
					}
					t.mu.Lock()
					t.size = size
					t.mu.Unlock()
					p.signal(signals["WINCH"])
				case <-t.stop:
					return
				}
			}
		})
	}
	return t
}

// end ends the goroutine that takes sizes.
func (t *terminal) end() {
	close(t.stop)
	t.done.Wait()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended = true
}

// setInterrupt sets what Ctrl-C calls; nil sends the signal to the process.
func (t *terminal) setInterrupt(f func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.interrupt = f
}

// change wakes the readers. The lock is held.
func (t *terminal) change() {
	close(t.changed)
	t.changed = make(chan struct{})
}

// type_ takes the keys that a client types.
func (t *terminal) type_(from io.Reader) {
	b := make([]byte, 1024)
	for {
		n, err := from.Read(b)
		for _, key := range b[:n] {
			t.echo(t.key(key))
		}
		if err != nil {
			t.mu.Lock()
			if len(t.line) > 0 {
				t.lines = append(t.lines, t.line)
				t.line = nil
			}
			t.ended = true
			t.change()
			t.mu.Unlock()
			return
		}
	}
}

// echo writes the echo of a key.
func (t *terminal) echo(text string) {
	if text != "" {
		t.writing.Lock()
		defer t.writing.Unlock()
		_, _ = io.WriteString(t.out, text)
	}
}

// key takes a key, and returns its echo.
func (t *terminal) key(key byte) (echo string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended {
		return ""
	}
	defer t.change()
	switch key {
	case '\r', '\n':
		t.lines = append(t.lines, append(t.line, '\n'))
		t.line = nil
		return "\r\n"
	case 3: // Ctrl-C
		t.line = nil
		if t.interrupt != nil {
			t.interrupt()
		} else {
			t.root.signal(sigINT)
		}
		return "^C\r\n"
	case 4: // Ctrl-D
		t.lines = append(t.lines, t.line)
		t.line = nil
		return ""
	case 8, 127: // backspace
		if len(t.line) == 0 {
			return ""
		}
		_, n := utf8.DecodeLastRune(t.line)
		t.line = t.line[:len(t.line)-n]
		return "\b \b"
	case 21: // Ctrl-U
		n := utf8.RuneCount(t.line)
		t.line = nil
		return string(bytes.Repeat([]byte("\b \b"), n))
	}
	typed := len(t.line)
	for _, l := range t.lines {
		typed += len(l)
	}
	if typed >= maxTyped {
		return "\a"
	}
	t.line = append(t.line, key)
	if key < ' ' && key != '\t' {
		return "^" + string(rune(key+'@'))
	}
	return string([]byte{key})
}

// read waits for a line, for the client to go, or for the end of ctx.
func (t *terminal) read(ctx context.Context, b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	for {
		t.mu.Lock()
		if len(t.lines) > 0 {
			line := t.lines[0]
			n := copy(b, line)
			if n == len(line) {
				t.lines = t.lines[1:]
			} else {
				t.lines[0] = line[n:]
			}
			t.mu.Unlock()
			t.root.waited()
			if n == 0 {
				return 0, io.EOF
			}
			return n, nil
		}
		if t.ended {
			t.mu.Unlock()
			return 0, io.EOF
		}
		changed := t.changed
		t.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
	}
}

func (t *terminal) write(_ context.Context, b []byte) (int, error) {
	t.writing.Lock()
	defer t.writing.Unlock()
	if _, err := t.out.Write(bytes.ReplaceAll(b, []byte("\n"), []byte("\r\n"))); err != nil {
		return 0, syscall.EPIPE
	}
	return len(b), nil
}

func (t *terminal) close() {}
