package etcd

import (
	"context"
	"sync"
	"time"
)

// position is the revision that the replica has reached.
type position struct {
	mu       sync.Mutex
	revision uint64
	// changed is closed, and replaced, when the revision or the error changes.
	changed chan struct{}
	// err is why the replica does not go on, nil while it does.
	err error
}

// reach records that the replica has reached a revision.
func (p *position) reach(revision uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.revision = revision
	close(p.changed)
	p.changed = make(chan struct{})
}

// fail records that the replica does not go on.
func (p *position) fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err != nil {
		return
	}
	p.err = err
	close(p.changed)
	p.changed = make(chan struct{})
}

func (p *position) latest() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.revision
}

func (p *position) failure() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// wait waits until the replica has reached a revision.
func (p *position) wait(ctx context.Context, revision uint64) error {
	for {
		p.mu.Lock()
		reached, err, changed := p.revision >= revision, p.err, p.changed
		p.mu.Unlock()
		switch {
		case err != nil:
			return err
		case reached:
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// askTimeout bounds a question.
const askTimeout = 10 * time.Second

// questions asks the cluster for its revision. Reads that begin while a question is on its way share the next one: an
// answer to a question from before the read could miss a write.
type questions struct {
	ask func(context.Context) (uint64, error)

	mu   sync.Mutex
	next *question // nil if nobody waits for the next question
	// asking runs while there are questions.
	asking  sync.WaitGroup
	running bool
}

// question is one question to the cluster. done is closed after revision and err are set.
type question struct {
	done     chan struct{}
	revision uint64
	err      error
}

// revision returns a revision that the cluster had after the call began.
func (q *questions) revision(ctx context.Context) (uint64, error) {
	q.mu.Lock()
	if q.next == nil {
		q.next = &question{done: make(chan struct{})}
	}
	mine := q.next
	if !q.running {
		q.running = true
		q.asking.Go(q.run)
	}
	q.mu.Unlock()
	select {
	case <-mine.done:
		return mine.revision, mine.err
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// run asks until nobody waits for an answer.
func (q *questions) run() {
	for {
		q.mu.Lock()
		current := q.next
		q.next = nil
		if current == nil {
			q.running = false
			q.mu.Unlock()
			return
		}
		q.mu.Unlock()
		ctx, cancel := context.WithTimeout(context.Background(), askTimeout)
		current.revision, current.err = q.ask(ctx)
		cancel()
		close(current.done)
	}
}

// wait waits for the last question.
func (q *questions) wait() { q.asking.Wait() }
