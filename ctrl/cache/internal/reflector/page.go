package reflector

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/ctrl/cache/internal/wire"
)

// pageRequest is a request for a page of a list.
type pageRequest struct {
	token   string
	cancel context.CancelFunc
	done   chan struct{}

	page *wire.Page
	err  error
}

// newPageRequest asks for a page; the empty name is the first page's.
func newPageRequest(ctx context.Context, source Source, next string) *pageRequest {
	ctx, cancel := context.WithCancel(ctx)
	q := &pageRequest{token: next, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(q.done)
		q.page, q.err = source.List(ctx, metav1.ListOptions{Limit: pageSize, Continue: next})
	}()
	return q
}

// wait waits for the page.
func (q *pageRequest) wait() (*wire.Page, error) {
	<-q.done
	q.cancel()
	return q.page, q.err
}

// cancelAndWait gives the request up and waits until nothing of it is left running.
func (q *pageRequest) cancelAndWait() {
	q.cancel()
	<-q.done
}
