package store

import (
	"context"
	"sync"
)

// progressKey is the key of WithProgressRequest's function in a context.
type progressKey struct{}

// WithProgressRequest returns a context of which a list makes the open watches of the same resource
// send a bookmark, at a resource version that is not older than that of the list. The list calls sent
// before it returns. This is the counterpart of etcd's progress request for clients of the API.
func WithProgressRequest(ctx context.Context, sent func()) context.Context {
	return context.WithValue(ctx, progressKey{}, sent)
}

// progress passes requests for bookmarks on to the watches of one store. The zero value is ready to
// use.
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

// request makes a request if the context asks for it.
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
