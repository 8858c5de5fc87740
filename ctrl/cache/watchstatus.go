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

// stableAfter is how long a watch must have been open to be a sign of health. A
// server that drops every watch at once lets none settle.
const stableAfter = 5 * time.Second

// watchStatus is what is known of the connection that fills a part. Metrics and
// health checks look at it.
type watchStatus struct {
	mu sync.Mutex
	// started is when the part was started, and last when the server told
	// something since, or begun.
	started, lastReceived time.Time
	// openSince is since when a watch is open, or zero.
	openSince time.Time
	// failingSince is since when nothing but errors has come, or zero, and err the
	// last of them.
	failingSince time.Time
	err     error
}

// start notes that the part is started.
func (c *watchStatus) start() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.started = time.Now()
	c.lastReceived = c.started
}

// received notes that the server told something. It is a success unless it may
// still be followed by an error that makes it worthless, as an item of a list
// may.
func (c *watchStatus) received(success bool) {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lastReceived = now
	if success {
		c.failingSince, c.err = time.Time{}, nil
	}
}

// failed notes an error.
func (c *watchStatus) failed(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = err
	if c.failingSince.IsZero() {
		c.failingSince = time.Now()
	}
}

// failure returns when the part was started, since when nothing but errors has
// come, and the last of them. A time is zero if it has not come.
func (c *watchStatus) failure() (begun, failing time.Time, last error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.isStable() {
		return c.started, time.Time{}, nil
	}
	return c.started, c.failingSince, c.err
}

func (c *watchStatus) isStable() bool {
	return !c.openSince.IsZero() && time.Since(c.openSince) >= stableAfter
}

// lastReceivedAndOpen returns when the server last told something, and whether a watch is
// open.
func (c *watchStatus) lastReceivedAndOpen() (last time.Time, watching bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lastReceived, !c.openSince.IsZero()
}

// watchOpened notes that a watch is open. What it returns is to be called when the
// watch is closed.
func (c *watchStatus) watchOpened() (closed func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.openSince = time.Now()
	c.lastReceived = c.openSince
	return sync.OnceFunc(c.watchClosed)
}

func (c *watchStatus) watchClosed() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.isStable() {
		c.failingSince, c.err = time.Time{}, nil
	}
	c.openSince = time.Time{}
}

// instrumentedWatch tells when it is closed.
type instrumentedWatch struct {
	watch.Interface
	closed func()
}

// Stop implements watch.Interface.
func (w *instrumentedWatch) Stop() {
	w.closed()
	w.Interface.Stop()
}

// instrumentedStream tells when it is closed.
type instrumentedStream struct {
	reflector.Stream
	closed func()
}

// Close implements reflector.Stream.
func (s *instrumentedStream) Close() {
	s.closed()
	s.Stream.Close()
}

// instrumentedSource is a source whose watches are noticed.
type instrumentedSource struct {
	reflector.Source
	contact *watchStatus
}

// Watch implements reflector.Source.
func (n instrumentedSource) Watch(ctx context.Context, opts metav1.ListOptions) (reflector.Stream, error) {
	s, err := n.Source.Watch(ctx, opts)
	if err != nil {
		return nil, err
	}
	return &instrumentedStream{s, n.contact.watchOpened()}, nil
}

// reason sorts an error of a list or watch: by the server's own word for it, or
// one of Connection, Timeout, Decoding, Ended, Silent and Unknown.
func reason(err error) string {
	var network net.Error
	switch {
	case apierrors.HasStatusCause(err, "ClientWatchDecoding"), errors.Is(err, reflector.ErrNotAnObject):
		return "Decoding"
	case errors.Is(err, reflector.ErrWatchEnded):
		return "Ended"
	case errors.Is(err, reflector.ErrInitialEventsTimeout):
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

// maxPublicText is how much of an error's text plain returns.
const maxPublicText = 300

// publicText describes an error for those who may not see what objects and
// credentials hold. Only the texts of the server and of the network are passed
// on: others may quote what they could not read.
func publicText(err error) string {
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
	if len(text) > maxPublicText {
		text = strings.ToValidUTF8(text[:maxPublicText], "") + "..."
	}
	return text
}
