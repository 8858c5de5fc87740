package reflector

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// request is a request for a page of a list.
type request struct {
	page   string
	cancel context.CancelFunc
	done   chan struct{}

	answered Page
	err      error
}

// newRequest asks for a page; the empty name is the first page's.
func newRequest(ctx context.Context, source Source, page string) *request {
	ctx, cancel := context.WithCancel(ctx)
	q := &request{page: page, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(q.done)
		q.answered, q.err = source.List(ctx, metav1.ListOptions{Limit: pageSize, Continue: page})
	}()
	return q
}

// answer waits for the page.
func (q *request) answer() (Page, error) {
	<-q.done
	q.cancel()
	return q.answered, q.err
}

// drop gives the request up and waits until nothing of it is left running.
func (q *request) drop() {
	q.cancel()
	<-q.done
}
