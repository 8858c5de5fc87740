package reflector

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/ctrl/cache/internal/wire"
)

// request is a request for a page of a list.
type request struct {
	next   string
	cancel context.CancelFunc
	done   chan struct{}

	page *wire.Page
	err  error
}

// newRequest asks for a page; the empty name is the first page's.
func newRequest(ctx context.Context, source Source, next string) *request {
	ctx, cancel := context.WithCancel(ctx)
	q := &request{next: next, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(q.done)
		q.page, q.err = source.List(ctx, metav1.ListOptions{Limit: pageSize, Continue: next})
	}()
	return q
}

// answer waits for the page.
func (q *request) answer() (*wire.Page, error) {
	<-q.done
	q.cancel()
	return q.page, q.err
}

// drop gives the request up and waits until nothing of it is left running.
func (q *request) drop() {
	q.cancel()
	<-q.done
}
