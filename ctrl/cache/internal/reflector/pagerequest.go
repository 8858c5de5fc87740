package reflector

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/ctrl/cache/internal/wire"
)

// pageRequest is a request for a page of a list that is in progress.
type pageRequest struct {
	token  string
	cancel context.CancelFunc
	done   chan struct{}

	page *wire.Page
	err  error
}

// newPageRequest requests a page: the first one, or the page of a continue token.
func newPageRequest(ctx context.Context, source Source, opts metav1.ListOptions) *pageRequest {
	ctx, cancel := context.WithCancel(ctx)
	q := &pageRequest{token: opts.Continue, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(q.done)
		q.page, q.err = source.List(ctx, opts)
	}()
	return q
}

// wait waits for the page and returns it.
func (q *pageRequest) wait() (*wire.Page, error) {
	<-q.done
	q.cancel()
	return q.page, q.err
}

// cancelAndWait cancels the request and waits for its goroutine.
func (q *pageRequest) cancelAndWait() {
	q.cancel()
	<-q.done
}
