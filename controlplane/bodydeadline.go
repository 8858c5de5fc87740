package controlplane

import (
	"context"
	"io"
	"os"
	"sync"
	"time"

	"flyball.dev/apiserver"
)

// deadlineBody is a request body with a deadline. Like the transports of net/http, it closes the body at the deadline
// and when the context of the request ends, which unblocks Read.
type deadlineBody struct {
	io.ReadCloser
	unhook func() bool

	mu      sync.Mutex
	timer   *time.Timer
	expired bool
}

// newDeadlineBody returns a body with the deadline of all requests, apiserver.RequestTimeout from now.
func newDeadlineBody(ctx context.Context, body io.ReadCloser) *deadlineBody {
	b := &deadlineBody{ReadCloser: body}
	b.timer = time.AfterFunc(apiserver.RequestTimeout, b.expire)
	b.unhook = context.AfterFunc(ctx, func() { body.Close() })
	return b
}

func (b *deadlineBody) expire() {
	b.mu.Lock()
	b.expired = true
	b.mu.Unlock()
	b.ReadCloser.Close()
}

func (b *deadlineBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && err != io.EOF {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.expired {
			err = os.ErrDeadlineExceeded
		}
	}
	return n, err
}

func (b *deadlineBody) Close() error {
	b.mu.Lock()
	b.timer.Stop()
	b.mu.Unlock()
	b.unhook()
	return b.ReadCloser.Close()
}

func (b *deadlineBody) setDeadline(t time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.timer.Stop()
	if !t.IsZero() {
		b.timer.Reset(time.Until(t))
	}
}

// bodyDeadline adds SetReadDeadline, for [http.ResponseController.SetReadDeadline], to a ResponseWriter. body is nil if
// reading it cannot block.
type bodyDeadline struct{ body *deadlineBody }

// SetReadDeadline sets the deadline for reading the body; the zero time means none.
func (d bodyDeadline) SetReadDeadline(t time.Time) error {
	if d.body != nil {
		d.body.setDeadline(t)
	}
	return nil
}
