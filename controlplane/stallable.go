package controlplane

import (
	"context"
	"io"
	"os"
	"sync"
	"time"

	"flyball.dev/apiserver"
)

// stallable is a body whose sender may stop sending. At its deadline, and when the context of the request
// ends, it is closed, which ends a Read that waits, as it does for the transports of net/http.
type stallable struct {
	io.ReadCloser
	unhook func() bool

	mu      sync.Mutex
	timer   *time.Timer
	expired bool
}

// newStallable gives a body the deadline that every request has.
func newStallable(ctx context.Context, body io.ReadCloser) *stallable {
	s := &stallable{ReadCloser: body}
	s.timer = time.AfterFunc(apiserver.RequestTimeout, s.expire)
	s.unhook = context.AfterFunc(ctx, func() { body.Close() })
	return s
}

func (s *stallable) expire() {
	s.mu.Lock()
	s.expired = true
	s.mu.Unlock()
	s.ReadCloser.Close()
}

func (s *stallable) Read(p []byte) (int, error) {
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

func (s *stallable) Close() error {
	s.mu.Lock()
	s.timer.Stop()
	s.mu.Unlock()
	s.unhook()
	return s.ReadCloser.Close()
}

func (s *stallable) setDeadline(t time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.timer.Stop()
	if !t.IsZero() {
		s.timer.Reset(time.Until(t))
	}
}

// bodyDeadline is what an [http.ResponseController] finds of a body that may stall.
type bodyDeadline struct{ body *stallable }

// SetReadDeadline bounds how long the handler waits for the body; the zero time is for ever.
func (d bodyDeadline) SetReadDeadline(t time.Time) error {
	if d.body != nil {
		d.body.setDeadline(t)
	}
	return nil
}
