package reflector

import (
	"context"
	"errors"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
)

// openWatch is an open watch, with the context that ends it.
type openWatch struct {
	Stream
	cancel context.CancelFunc
	opened time.Time
	// events are the events that were read and not passed on yet.
	events []apiwatch.Event
	// age is how long the watch had been open when events were read last.
	age time.Duration
}

// The errors that are detected by the reflector itself.
var (
	// ErrWatchEnded is a watch that ended without an error, but before it was stable.
	ErrWatchEnded error = watchEnded{}
	// ErrInitialEventsTimeout is a watch list that did not end its initial events.
	ErrInitialEventsTimeout = errors.New("timed out waiting for the bookmark that ends the initial events")
	// ErrNotAnObject is an event with something other than an object.
	ErrNotAnObject = errors.New("unexpected type in a watch event: not an API object")
)

// watchEnded is client-go's error for it too.
type watchEnded struct{}

func (watchEnded) Error() string { return "very short watch: the watch ended unexpectedly soon" }
func (watchEnded) Unwrap() error { return &toolscache.VeryShortWatchError{} }

// newOpenWatch opens a watch that ends after timeout, even on a dead connection.
func newOpenWatch(
	ctx context.Context, source Source, opts metav1.ListOptions, timeout time.Duration,
) (*openWatch, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	stream, err := source.Watch(ctx, opts)
	if err != nil {
		cancel()
		return nil, err
	}
	return &openWatch{Stream: stream, cancel: cancel, opened: time.Now()}, nil
}

// next returns the next event. While streaming, it fails after initialEventsTimeout without one.
func (w *openWatch) next(streaming bool) (apiwatch.Event, error) {
	if len(w.events) == 0 {
		if err := w.fill(streaming); err != nil {
			return apiwatch.Event{}, err
		}
	}
	event := w.events[0]
	w.events = w.events[1:]
	return event, nil
}

// fill reads the events that the server has sent, and waits for one.
func (w *openWatch) fill(streaming bool) (err error) {
	stopTimer := func() bool { return true }
	if streaming {
		stopTimer = time.AfterFunc(initialEventsTimeout, w.cancel).Stop
	}
	w.events, err = w.Next()
	if !stopTimer() {
		err = ErrInitialEventsTimeout
	}
	w.age = time.Since(w.opened)
	return err
}

func (w *openWatch) close() {
	w.cancel()
	w.Close()
}

// causeReset is the cause of an error if a version has expired because Flyball's API server was reset, as
// tests do.
const causeReset metav1.CauseType = "ServerReset"

// classify returns the signal of an error in the current state.
func classify(err error, m machine) signal {
	opening := m.state == empty && !m.paging
	switch {
	case apierrors.HasStatusCause(err, causeReset):
		return reset
	case apierrors.IsResourceExpired(err), apierrors.IsGone(err), isTooLarge(err):
		return expired
	case isDecodingError(err) && (m.state == streaming || m.state == watching):
		return decodingFailed
	case opening && (apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsMethodNotSupported(err)):
		return unsupported
	case m.state == streaming && apierrors.IsInvalid(err):
		return unsupported
	default:
		return failed
	}
}

// isTooLarge reports whether the server does not have a resource version yet. Servers before
// Kubernetes 1.19 report it with a message instead of a cause.
func isTooLarge(err error) bool {
	return apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge) ||
		apierrors.IsTimeout(err) && strings.Contains(err.Error(), "Too large resource version")
}

// isDecodingError reports whether an error event was created by the client for an event that it
// could not decode.
func isDecodingError(err error) bool {
	return apierrors.HasStatusCause(err, "ClientWatchDecoding")
}
