package controller

import (
	"context"
	"sync"
	"sync/atomic"

	"flyball.dev/ctrl/internal/queue"
	"flyball.dev/ctrl/reconcile"
)

// holds are the requests that a person has paused in the console. A paused request is parked when a worker takes it.
type holds[request comparable] struct {
	any atomic.Bool // whether anything is paused

	mu      sync.Mutex
	resumed chan struct{} // closed when the controller is resumed; nil if it is not paused
	keys    map[request]bool
	parked  map[request]queue.Item[request]
}

// wait waits while the controller is paused, or until ctx ends.
func (h *holds[request]) wait(ctx context.Context) {
	for h.any.Load() {
		h.mu.Lock()
		resumed := h.resumed
		h.mu.Unlock()
		if resumed == nil {
			return
		}
		select {
		case <-resumed:
		case <-ctx.Done():
			return
		}
	}
}

// park keeps a request that was taken from the queue if it is paused, and reports whether it is.
func (h *holds[request]) park(item queue.Item[request]) bool {
	if !h.any.Load() {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.resumed == nil && !h.keys[item.Key] {
		return false
	}
	if before, ok := h.parked[item.Key]; ok {
		for _, c := range item.Causes.List {
			before.Causes.Add(c)
		}
		item.Causes.List = before.Causes.List
		item.Priority = max(item.Priority, before.Priority)
	}
	if h.parked == nil {
		h.parked = map[request]queue.Item[request]{}
	}
	h.parked[item.Key] = item
	return true
}

// pause pauses the controller, or one request if key is not nil.
func (h *holds[request]) pause(key *request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case key == nil && h.resumed == nil:
		h.resumed = make(chan struct{})
	case key != nil:
		if h.keys == nil {
			h.keys = map[request]bool{}
		}
		h.keys[*key] = true
	}
	h.any.Store(true)
}

// resume ends what pause began. It returns the requests that are to be added to the queue again.
func (h *holds[request]) resume(key *request) (parked []queue.Item[request]) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case key != nil:
		delete(h.keys, *key)
	case h.resumed != nil:
		close(h.resumed)
		h.resumed = nil
	}
	h.any.Store(h.resumed != nil || len(h.keys) > 0)
	if h.resumed != nil {
		return nil
	}
	for k, item := range h.parked {
		if !h.keys[k] {
			parked = append(parked, item)
			delete(h.parked, k)
		}
	}
	return parked
}

// held returns whether the controller is paused, and the requests that are.
func (h *holds[request]) held() (all bool, keys []request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for key := range h.keys {
		keys = append(keys, key)
	}
	return h.resumed != nil, keys
}

// isParked returns whether a request is parked.
func (h *holds[request]) isParked(key request) (queue.Item[request], bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	item, ok := h.parked[key]
	return item, ok
}

// addAgain adds parked requests to a queue, with the causes that they were parked with.
func addAgain[request comparable](q queue.View[request], parked []queue.Item[request]) {
	for _, item := range parked {
		o := queue.AddOpts{Priority: &item.Priority}
		if len(item.Causes.List) == 0 {
			q.AddWithCause(reconcile.Cause{Kind: reconcile.CauseAdded}, o, item.Key)
		}
		for _, c := range item.Causes.List {
			q.AddWithCause(c, o, item.Key)
		}
	}
}
