package controlplane

import (
	"context"
	"io"
	"os"
	"sync"
	"time"

	"flyball.dev/apiserver"
)

// deadlineBody is a request body with a deadline. At the deadline, and when the context of the
// request ends, it is closed, which unblocks Read, as with the transports of net/http.
type deadlineBody struct {
	io.ReadCloser
	unhook func() bool

	mu      sync.Mutex
	timer   *time.Timer
	expired bool
}

// newDeadlineBody sets the deadline of all requests, apiserver.RequestTimeout from now, on a body.
func newDeadlineBody(ctx context.Context, body io.ReadCloser) *deadlineBody {
	s := &deadlineBody{ReadCloser: body}
	s.timer = time.AfterFunc(apiserver.RequestTimeout, s.expire)
	s.unhook = context.AfterFunc(ctx, func() { body.Close() })
	return s
}

func (s *deadlineBody) expire() {
	s.mu.Lock()
	s.expired = true
	s.mu.Unlock()
	s.ReadCloser.Close()
}

func (s *deadlineBody) Read(p []byte) (int, error) {
	n, err := s.ReadCloser.Read(p)
	if err != nil && err != io.EOF {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.expired {
			err = os.ErrDeadlineExceeded
		}
	}
	return n, err
}

func (s *deadlineBody) Close() error {
	s.mu.Lock()
	s.timer.Stop()
	s.mu.Unlock()
	s.unhook()
	return s.ReadCloser.Close()
}

func (s *deadlineBody) setDeadline(t time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.timer.Stop()
	if !t.IsZero() {
		s.timer.Reset(time.Until(t))
	}
}

// bodyDeadline provides the method of a ResponseWriter that
// [http.ResponseController.SetReadDeadline] calls. The body is nil if it cannot block.
type bodyDeadline struct{ body *deadlineBody }

// SetReadDeadline sets the deadline for reading the body; the zero time means none.
func (d bodyDeadline) SetReadDeadline(t time.Time) error {
	if d.body != nil {
		d.body.setDeadline(t)
	}
	return nil
}
