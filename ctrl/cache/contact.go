package cache

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/url"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"flyball.dev/ctrl/cache/internal/reflector"
)

// settled is how long a watch must have been open to be a sign of health. A
// server that drops every watch at once lets none settle.
const settled = 5 * time.Second

// contact is what is known of the connection that fills a part. Metrics and
// health checks look at it.
type contact struct {
	mu sync.Mutex
	// begun is when the part was started, and last when the server told
	// something since, or begun.
	begun, last time.Time
	// opened is since when a watch is open, or zero.
	opened time.Time
	// failing is since when nothing but errors has come, or zero, and err the
	// last of them.
	failing time.Time
	err     error
}

// begin notes that the part is started.
func (c *contact) begin() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.begun = time.Now()
	c.last = c.begun
}

// heard notes that the server told something. It is a success unless it may
// still be followed by an error that makes it worthless, as an item of a list
// may.
func (c *contact) heard(success bool) {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = now
	if success {
		c.failing, c.err = time.Time{}, nil
	}
}

// failed notes an error.
func (c *contact) failed(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = err
	if c.failing.IsZero() {
		c.failing = time.Now()
	}
}

// trouble returns when the part was started, since when nothing but errors has
// come, and the last of them. A time is zero if it has not come.
func (c *contact) trouble() (begun, failing time.Time, last error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.isSettled() {
		return c.begun, time.Time{}, nil
	}
	return c.begun, c.failing, c.err
}

func (c *contact) isSettled() bool {
	return !c.opened.IsZero() && time.Since(c.opened) >= settled
}

// status returns when the server last told something, and whether a watch is
// open.
func (c *contact) status() (last time.Time, watching bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last, !c.opened.IsZero()
}

// watching notes that a watch is open. What it returns is to be called when the
// watch is closed.
func (c *contact) watching() (closed func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.opened = time.Now()
	c.last = c.opened
	return sync.OnceFunc(c.closed)
}

func (c *contact) closed() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.isSettled() {
		c.failing, c.err = time.Time{}, nil
	}
	c.opened = time.Time{}
}

// noticedWatch tells when it is closed.
type noticedWatch struct {
	watch.Interface
	closed func()
}

// Stop implements watch.Interface.
func (w *noticedWatch) Stop() {
	w.closed()
	w.Interface.Stop()
}

// noticedStream tells when it is closed.
type noticedStream struct {
	reflector.Stream
	closed func()
}

// Close implements reflector.Stream.
func (s *noticedStream) Close() {
	s.closed()
	s.Stream.Close()
}

// noticed is a source whose watches are noticed.
type noticed struct {
	reflector.Source
	contact *contact
}

// Watch implements reflector.Source.
func (n noticed) Watch(ctx context.Context, opts metav1.ListOptions) (reflector.Stream, error) {
	s, err := n.Source.Watch(ctx, opts)
	if err != nil {
		return nil, err
	}
	return &noticedStream{s, n.contact.watching()}, nil
}

// reason sorts an error of a list or watch: by the server's own word for it, or
// one of Connection, Timeout, Decoding, Ended, Silent and Unknown.
func reason(err error) string {
	var network net.Error
	switch {
	case apierrors.HasStatusCause(err, "ClientWatchDecoding"), errors.Is(err, reflector.ErrNoObject):
		return "Decoding"
	case errors.Is(err, reflector.ErrEnded):
		return "Ended"
	case errors.Is(err, reflector.ErrSilent):
		return "Silent"
	case apierrors.ReasonForError(err) != metav1.StatusReasonUnknown:
		return string(apierrors.ReasonForError(err))
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &network) && network.Timeout():
		return "Timeout"
	case network != nil, errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "Connection"
	default:
		return "Unknown"
	}
}

// longest is how much of an error's text plain returns.
const longest = 300

// plain describes an error for those who may not see what objects and
// credentials hold. Only the texts of the server and of the network are passed
// on: others may quote what they could not read.
func plain(err error) string {
	text := reason(err)
	var (
		request *url.Error
		status  apierrors.APIStatus
		op      *net.OpError
		name    *net.DNSError
		cert    *tls.CertificateVerificationError
	)
	if errors.As(err, &request) {
		err = request.Err // without the address
	}
	switch {
	case text == "Decoding":
	case errors.As(err, &status):
		text += ": " + status.Status().Message
	case errors.As(err, &op):
		text += ": " + op.Error()
	case errors.As(err, &name):
		text += ": " + name.Error()
	case errors.As(err, &cert):
		text += ": " + cert.Error()
	}
	if len(text) > longest {
		text = strings.ToValidUTF8(text[:longest], "") + "..."
	}
	return text
}
