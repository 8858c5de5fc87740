package controlplane

import "sync"

// requests counts what is under way, so that a stop can refuse more and wait for the rest.
type requests struct {
	mu      sync.Mutex
	refused bool
	running sync.WaitGroup
}

// enter begins a request, unless no more are taken.
func (r *requests) enter() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.refused {
		return false
	}
	r.running.Add(1)
	return true
}

func (r *requests) leave() { r.running.Done() }

// drain takes no more requests and waits for those under way.
func (r *requests) drain() {
	r.mu.Lock()
	r.refused = true
	r.mu.Unlock()
	r.running.Wait()
}
