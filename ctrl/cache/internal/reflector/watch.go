package reflector

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiwatch "k8s.io/apimachinery/pkg/watch"
)

// openWatch is a watch that is open, with the context that ends it.
type openWatch struct {
	Stream
	cancel context.CancelFunc
	opened time.Time
	// events are those that were read and not yet passed on.
	events []apiwatch.Event
	// stable is set once the watch has been open long enough for its end not to
	// count as a failure.
	stable bool
}

// The errors that a reflector itself finds.
var (
	// ErrWatchEnded is a watch that ended before it had told anything.
	ErrWatchEnded = errors.New("the watch ended at once")
	// ErrInitialEventsTimeout is a watch that was to begin with a list and did not tell the
	// end of it.
	ErrInitialEventsTimeout = errors.New("the server did not finish a streaming list")
	// ErrNotAnObject is an event about something else than an object.
	ErrNotAnObject = errors.New("the watch told of something that is not an object")
)

// newOpenWatch opens a watch that ends after timeout even if the connection has
// died without a sign.
func newOpenWatch(ctx context.Context, source Source, opts metav1.ListOptions, timeout time.Duration) (*openWatch, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	stream, err := source.Watch(ctx, opts)
	if err != nil {
		cancel()
		return nil, err
	}
	return &openWatch{Stream: stream, cancel: cancel, opened: time.Now()}, nil
}

// event returns the next event. If the server must not be silent for long, it is
// given up when it is.
func (w *openWatch) event(streaming bool) (apiwatch.Event, error) {
	if len(w.events) == 0 {
		if err := w.read(streaming); err != nil {
			return apiwatch.Event{}, err
		}
	}
	event := w.events[0]
	w.events = w.events[1:]
	return event, nil
}

func (w *openWatch) read(streaming bool) (err error) {
	heard := func() bool { return true }
	if streaming {
		heard = time.AfterFunc(initialEventsTimeout, w.cancel).Stop
	}
	w.events, err = w.Next()
	if !heard() {
		err = ErrInitialEventsTimeout
	}
	w.stable = time.Since(w.opened) >= stableAfter
	return err
}

func (w *openWatch) close() {
	w.cancel()
	w.Close()
}

// classify tells what an error means to a machine.
func classify(err error, m machine) signal {
	opening := m.state == empty && !m.paging
	switch {
	case apierrors.IsResourceExpired(err), apierrors.IsGone(err), apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge):
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

// isDecodingError tells whether the client made up an error of a watch because it
// could not decode what the server sent.
func isDecodingError(err error) bool {
	return apierrors.HasStatusCause(err, "ClientWatchDecoding")
}
