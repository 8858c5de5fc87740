package store

import (
	"context"
	"sync"
)

// progressKey is the context key of WithProgressRequest.
type progressKey struct{}

// WithProgressRequest returns a context for a list. The list makes the open watches of the resource send a bookmark
// that is not older than the list, and calls sent before it returns. Clients of the API use it like a progress request
// of etcd.
func WithProgressRequest(ctx context.Context, sent func()) context.Context {
	return context.WithValue(ctx, progressKey{}, sent)
}

// progress passes requests for bookmarks on to the watches of one store. The zero value is ready to use.
type progress struct {
	mu        sync.Mutex
	requested chan struct{} // closed by the next request; nil if nobody waits for one
}

// requests returns a channel that is closed by the next request.
func (p *progress) requests() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.requested == nil {
		p.requested = make(chan struct{})
	}
	return p.requested
}

// request requests bookmarks if the context has a progress request.
func (p *progress) request(ctx context.Context) {
	sent, ok := ctx.Value(progressKey{}).(func())
	if !ok {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.requested != nil {
		close(p.requested)
		p.requested = nil
	}
	sent()
}
