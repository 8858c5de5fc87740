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

// newPageRequest requests the page of a continue token, which is empty for the first page.
func newPageRequest(ctx context.Context, source Source, token string) *pageRequest {
	ctx, cancel := context.WithCancel(ctx)
	q := &pageRequest{token: token, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(q.done)
		q.page, q.err = source.List(ctx, metav1.ListOptions{Limit: PageSize, Continue: token})
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
