package etcd

import (
	"context"
	"errors"
	"sync"
	"time"
)

// position is the revision that the replica has reached.
type position struct {
	mu       sync.Mutex
	revision uint64
	// cluster is the ID of the cluster, zero before the first answer.
	cluster uint64
	// compacted is the highest compact revision that the cluster is known to have had.
	compacted uint64
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

// errOther means that the endpoints belong to another cluster than before.
var errOther = errors.New("the endpoints lead to another etcd cluster than before; restart the server")

// checkCluster records the ID of the cluster. If it was another one before, the replica does not go on: the revisions of two
// clusters have nothing to do with each other.
func (p *position) checkCluster(id uint64) error {
	p.mu.Lock()
	first := p.cluster == 0
	if first {
		p.cluster = id
	}
	same := p.cluster == id
	p.mu.Unlock()
	if same {
		return nil
	}
	p.fail(errOther)
	return errOther
}

// compact records that the cluster has had a compact revision.
func (p *position) compact(revision uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.compacted = max(p.compacted, revision)
}

func (p *position) compactRevision() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.compacted
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

// answer is the latest revision of the cluster, and the compact revision at that time: earlier revisions cannot be read.
type answer struct{ revision, compacted uint64 }

// questions asks the cluster for its revisions. Reads that begin while a question is on its way share the next one: an
// answer to a question from before the read could miss a write.
type questions struct {
	ask func(context.Context) (answer, error)

	mu   sync.Mutex
	next *question // nil if nobody waits for the next question
	// asking runs while there are questions.
	asking  sync.WaitGroup
	running bool
}

// question is one question to the cluster. done is closed after the answer and err are set.
type question struct {
	answer
	done chan struct{}
	err  error
}

// answer returns an answer that the cluster has given after the call began.
func (q *questions) answer(ctx context.Context) (answer, error) {
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
		return mine.answer, mine.err
	case <-ctx.Done():
		return answer{}, ctx.Err()
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
		current.answer, current.err = q.ask(ctx)
		cancel()
		close(current.done)
	}
}

// wait waits for the last question.
func (q *questions) wait() { q.asking.Wait() }
