package memory

import (
	"context"
	"slices"
	"strings"

	"flyball.dev/internal/invariants"
	"flyball.dev/storage"
)

const (
	// batch is the most events that one call of Next returns.
	batch = 128
	// stride is the most events that are looked at under the lock in one go.
	stride = 1024
)

// watcher reads the log from a position. While it is idle it has no position: it has seen everything,
// and the next write to its path gives it one. That way a watcher of a quiet path can never fall out of
// the history.
type watcher struct {
	store *Store
	path  string
	ready chan struct{}
	buf   []*storage.Event

	// Guarded by the store's lock.
	next   uint64 // the revision to read next; with idle, the first one that is wanted
	idle   bool
	slot   int // of its topic's idle watchers
	closed bool
}

// topic is the watchers of one path.
type topic struct {
	watchers int
	idle     []*watcher
}

// Watch implements [storage.Store].
func (s *Store) Watch(_ context.Context, path string, after uint64) (storage.Watcher, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return nil, storage.ErrClosed
	case after == 0:
		after = s.revision
	case after < s.history.compacted:
		return nil, storage.ErrCompacted
	}
	t := s.topics[path]
	if t == nil {
		t = &topic{}
		s.topics[path] = t
	}
	t.watchers++
	w := &watcher{store: s, path: path, ready: make(chan struct{}, 1), next: after + 1}
	if after >= s.revision {
		w.park(t)
	}
	return w, nil
}

// Next implements [storage.Watcher].
func (w *watcher) Next() ([]*storage.Event, uint64, error) {
	clear(w.buf)
	w.buf = w.buf[:0]
	for {
		revision, done, err := w.read()
		if done || err != nil {
			return w.buf, revision, err
		}
	}
}

// read looks at the next stretch of the log. It is done when there are events to return, or none left.
func (w *watcher) read() (revision uint64, done bool, err error) {
	s := w.store
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed || w.closed:
		return 0, true, storage.ErrClosed
	case w.idle:
		return s.revision, true, nil
	case w.next <= s.history.compacted:
		return 0, true, storage.ErrCompacted
	}
	rest := s.history.after(w.next - 1)
	for _, e := range rest[:min(stride, len(rest))] {
		if len(w.buf) == batch {
			break
		}
		if storage.Covers(w.path, e.Record.Key) {
			w.buf = append(w.buf, e)
		}
		if invariants.Enabled {
			w.checkNext(e)
		}
		w.next++
	}
	if w.next <= s.revision {
		return w.next - 1, len(w.buf) > 0, nil
	}
	w.park(s.topics[w.path])
	return s.revision, true, nil
}

// park makes the watcher wait for the next write. The store's lock is held.
func (w *watcher) park(t *topic) {
	w.idle, w.slot = true, len(t.idle)
	t.idle = append(t.idle, w)
}

// Ready implements [storage.Watcher].
func (w *watcher) Ready() <-chan struct{} { return w.ready }

// Close implements [storage.Watcher].
func (w *watcher) Close() {
	s := w.store
	s.mu.Lock()
	defer s.mu.Unlock()
	if w.closed || s.closed {
		return
	}
	w.closed = true
	t := s.topics[w.path]
	if w.idle {
		last := t.idle[len(t.idle)-1]
		t.idle[w.slot], last.slot = last, w.slot
		t.idle = slices.Delete(t.idle, len(t.idle)-1, len(t.idle))
	}
	if t.watchers--; t.watchers == 0 {
		delete(s.topics, w.path)
	}
}

// publish wakes the watchers of every path that covers a record that was written. The lock is held.
func (s *Store) publish(r *storage.Record) {
	if len(s.topics) == 0 {
		return
	}
	s.topics[""].wake(r.Revision)
	for end := 0; ; {
		i := strings.IndexByte(r.Key[end:], '/')
		if i < 0 {
			break
		}
		end += i + 1
		s.topics[r.Key[:end]].wake(r.Revision)
	}
	s.topics[r.Key].wake(r.Revision)
}

// wake gives the idle watchers a position. Those who wait for a later revision stay idle.
func (t *topic) wake(revision uint64) {
	if t == nil || len(t.idle) == 0 {
		return
	}
	waiting := t.idle[:0]
	for _, w := range t.idle {
		if w.next > revision {
			w.slot = len(waiting)
			waiting = append(waiting, w)
			continue
		}
		w.idle, w.next = false, revision
		select {
		case w.ready <- struct{}{}:
		default:
		}
	}
	clear(t.idle[len(waiting):])
	t.idle = waiting
}
