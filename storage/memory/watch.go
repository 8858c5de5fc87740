package memory

import (
	"context"
	"slices"
	"strings"

	"flyball.dev/internal/invariants"
	"flyball.dev/storage"
)

const (
	// maxBatch is about the largest number of events that one call of Next returns.
	maxBatch = 128
	// maxScanned is about the largest number of events that are scanned while the lock is held.
	maxScanned = 1024
)

// watcher reads the log from a revision. An idle watcher has read everything and has no revision; the next write to its
// path gives it one. A watcher of a quiet path therefore never falls behind the history.
type watcher struct {
	store *Store
	path  string
	ready chan struct{}
	buf   []*storage.Event

	// Guarded by the store's lock.
	next     uint64 // the revision to read next; if idle, the first one that may be read
	idle     bool
	position int // in its topic's list of idle watchers
	closed   bool
}

// topic is the set of the watchers of one path.
type topic struct {
	watchers int
	idle     []*watcher
}

// Watch implements [storage.Store].
func (s *Store) Watch(ctx context.Context, path string, after uint64) (storage.Watcher, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return nil, storage.ErrClosed
	case s.fenced(ctx):
		return nil, storage.ErrReset
	case after == 0:
		after = s.visible
	case after < s.history.compacted:
		return nil, s.compacted(after)
	}
	t := s.topics[path]
	if t == nil {
		t = &topic{}
		s.topics[path] = t
	}
	t.watchers++
	w := &watcher{store: s, path: path, ready: make(chan struct{}, 1), next: after + 1}
	if after >= s.visible {
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

// read scans the next part of the log. It returns true if there are events to return or nothing is left to scan.
func (w *watcher) read() (revision uint64, done bool, err error) {
	s := w.store
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed || w.closed:
		return 0, true, storage.ErrClosed
	case w.idle:
		return max(s.visible, w.next-1), true, nil // a watch from a revision in the future never goes back
	case w.next <= s.history.compacted:
		return 0, true, s.compacted(w.next - 1)
	}
	for i, e := range s.history.between(w.next-1, s.visible) {
		if e.Record.Revision >= w.next { // the first event of its revision: a batch never ends within one
			if i >= maxScanned || len(w.buf) >= maxBatch {
				return w.next - 1, len(w.buf) > 0, nil
			}
			if invariants.Enabled {
				w.checkNext(e)
			}
			w.next = e.Record.Revision + 1
		}
		if storage.Covers(w.path, e.Record.Key) {
			w.buf = append(w.buf, e)
		}
	}
	w.park(s.topics[w.path])
	return s.visible, true, nil
}

// park makes the watcher idle until the next write. The caller holds the store's lock.
func (w *watcher) park(t *topic) {
	w.idle, w.position = true, len(t.idle)
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
		t.idle[w.position], last.position = last, w.position
		t.idle = slices.Delete(t.idle, len(t.idle)-1, len(t.idle))
	}
	if t.watchers--; t.watchers == 0 {
		delete(s.topics, w.path)
	}
}

// publish wakes the watchers of every path that covers the record of an event. The caller holds the lock.
func (s *Store) publish(events []*storage.Event) {
	if len(s.topics) == 0 {
		return
	}
	for _, e := range events {
		s.wakeWatchers(e.Record)
	}
}

// wakeWatchers wakes the watchers of every path that covers a record. The caller holds the lock.
func (s *Store) wakeWatchers(r *storage.Record) {
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

// wake makes the idle watchers read from a revision. Watchers that wait for a later revision stay idle.
func (t *topic) wake(revision uint64) {
	if t == nil || len(t.idle) == 0 {
		return
	}
	waiting := t.idle[:0]
	for _, w := range t.idle {
		if w.next > revision {
			w.position = len(waiting)
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
