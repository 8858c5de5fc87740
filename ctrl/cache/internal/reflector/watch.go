package reflector

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiwatch "k8s.io/apimachinery/pkg/watch"
)

// openWatch is a watch that is open, with the context that ends it.
type openWatch struct {
	apiwatch.Interface
	cancel context.CancelFunc
	opened time.Time
}

// newOpenWatch opens a watch that ends after timeout even if the connection has
// died without a sign.
func newOpenWatch(ctx context.Context, source Source, opts metav1.ListOptions, timeout time.Duration) (*openWatch, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	w, err := source.Watch(ctx, opts)
	if err != nil {
		cancel()
		return nil, err
	}
	return &openWatch{w, cancel, time.Now()}, nil
}

func (w *openWatch) events() <-chan apiwatch.Event {
	return w.ResultChan()
}

// lasted tells whether the watch has been open long enough for its end not to
// count as a failure.
func (w *openWatch) lasted() bool {
	return time.Since(w.opened) >= lasting
}

// close ends the watch and waits until its channel is closed, so that nothing
// of it is left running.
func (w *openWatch) close() {
	w.Stop()
	w.cancel()
	for range w.ResultChan() {
	}
}

// classify tells what an error means to a machine.
func classify(err error, m machine) signal {
	opening := m.state == empty && !m.paging
	switch {
	case apierrors.IsResourceExpired(err), apierrors.IsGone(err), apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge):
		return gone
	case undecodable(err) && (m.state == streaming || m.state == watching):
		return garbled
	case opening && (apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsMethodNotSupported(err)):
		return unsupported
	case m.state == streaming && apierrors.IsInvalid(err):
		return unsupported
	default:
		return failed
	}
}

// undecodable tells whether the client made up an error of a watch because it
// could not decode what the server sent.
func undecodable(err error) bool {
	return apierrors.HasStatusCause(err, "ClientWatchDecoding")
}
