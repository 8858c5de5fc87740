package cache

import (
	"context"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"flyball.dev/ctrl/cache/internal/reflector"
)

// watchStatus is the status of the lists and watches of a partition, for metrics and health checks.
type watchStatus struct {
	mu sync.Mutex
	// started is when the partition was started, and lastReceived when the server last sent anything,
	// or else started.
	started, lastReceived time.Time
	// openSince is when the open watch was opened, zero if none is open.
	openSince time.Time
	// failingSince is the time of the first error since the last success, zero if there was none, and
	// err the last error.
	failingSince time.Time
	err          error
}

// start records that the partition was started.
func (s *watchStatus) start() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.started = time.Now()
	s.lastReceived = s.started
}

// received records that the server sent something. It is a success unless an error may still
// invalidate it, as for an item of a list.
func (s *watchStatus) received(success bool) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastReceived = now
	if success {
		s.failingSince, s.err = time.Time{}, nil
	}
}

// failed records an error.
func (s *watchStatus) failed(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
	if s.failingSince.IsZero() {
		s.failingSince = time.Now()
	}
}

// failure returns when the partition was started, the time of the first error since the last
// success, and the last error. A time is zero if there is none.
func (s *watchStatus) failure() (started, failingSince time.Time, last error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isStable() {
		return s.started, time.Time{}, nil
	}
	return s.started, s.failingSince, s.err
}

// isStable reports whether the open watch is healthy. The caller holds mu.
func (s *watchStatus) isStable() bool {
	return !s.openSince.IsZero() && time.Since(s.openSince) >= reflector.StableAfter
}

// lastReceivedAndOpen returns when the server last sent anything, and whether a watch is open.
func (s *watchStatus) lastReceivedAndOpen() (last time.Time, open bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lastReceived, !s.openSince.IsZero()
}

// watchOpened records that a watch was opened. The caller calls the returned function when the
// watch is closed.
func (s *watchStatus) watchOpened() (closed func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.openSince = time.Now()
	s.lastReceived = s.openSince
	return sync.OnceFunc(s.watchClosed)
}

func (s *watchStatus) watchClosed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isStable() {
		s.failingSince, s.err = time.Time{}, nil
	}
	s.openSince = time.Time{}
}

// instrumentedWatch is a watch that records when it is closed.
type instrumentedWatch struct {
	watch.Interface
	closed func()
}

// Stop implements watch.Interface.
func (w *instrumentedWatch) Stop() {
	w.closed()
	w.Interface.Stop()
}

// instrumentedStream is a stream that records when it is closed.
type instrumentedStream struct {
	reflector.Stream
	closed func()
}

// Close implements reflector.Stream.
func (s *instrumentedStream) Close() {
	s.closed()
	s.Stream.Close()
}

// instrumentedSource is a source that records when its watches are opened and closed.
type instrumentedSource struct {
	reflector.Source
	status *watchStatus
}

// Watch implements reflector.Source.
func (i instrumentedSource) Watch(ctx context.Context, opts metav1.ListOptions) (reflector.Stream, error) {
	s, err := i.Source.Watch(ctx, opts)
	if err != nil {
		return nil, err
	}
	return &instrumentedStream{s, i.status.watchOpened()}, nil
}
