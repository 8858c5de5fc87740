package server

import (
	"bytes"
	"io"
	"sync"
)

// maxAhead bounds the input that a process has not read yet.
const maxAhead = 1 << 20

// input is the standard input of a process. It reads ahead: the connection must go on while the process does not read, to
// answer the pings of the client, and to notice when the client goes.
type input struct {
	mu      sync.Mutex
	changed sync.Cond
	ahead   bytes.Buffer
	err     error // after ahead
}

func newInput() *input {
	i := &input{}
	i.changed.L = &i.mu
	return i
}

// fill reads from the client until the input ends, or close is called and the read returns.
func (i *input) fill(from io.Reader) {
	part := make([]byte, 32<<10)
	for {
		n, err := from.Read(part)
		i.mu.Lock()
		for i.err == nil && i.ahead.Len()+n > maxAhead {
			i.changed.Wait()
		}
		if i.err == nil {
			i.ahead.Write(part[:n])
			i.err = err
		}
		ended := i.err != nil
		i.mu.Unlock()
		i.changed.Broadcast()
		if ended {
			return
		}
	}
}

// Read implements [io.Reader].
func (i *input) Read(p []byte) (int, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for i.ahead.Len() == 0 && i.err == nil {
		i.changed.Wait()
	}
	if i.ahead.Len() == 0 {
		return 0, i.err
	}
	n, _ := i.ahead.Read(p)
	i.changed.Broadcast()
	return n, nil
}

// close ends the input.
func (i *input) close() {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.err == nil {
		i.err = io.ErrClosedPipe
	}
	i.changed.Broadcast()
}
