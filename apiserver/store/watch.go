package store

import (
	"context"
	"errors"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	apistorage "k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/util/flowcontrol"

	"flyball.dev/apiserver/resource"
	"flyball.dev/storage"
)

const (
	// bookmarkFrequency is the time between bookmarks. finalBookmark is how long before the deadline of a watch the
	// last bookmark is sent.
	bookmarkFrequency = time.Minute
	finalBookmark     = 2 * time.Second
	// resultBuffer is how many events are buffered for a slow client.
	resultBuffer = 16
)

// drainKey is the context key of WithDrain.
type drainKey struct{}

// WithDrain returns a context for watches. When done is closed, a watch ends after it has sent all events written until
// then.
func WithDrain(ctx context.Context, done <-chan struct{}) context.Context {
	return context.WithValue(ctx, drainKey{}, done)
}

// Watch implements storage.Interface.
func (s *Store) Watch(ctx context.Context, key string, opts apistorage.ListOptions) (watch.Interface, error) {
	path, err := s.key(key, opts.Recursive)
	if err != nil {
		return nil, err
	}
	after, err := s.versioner.ParseResourceVersion(opts.ResourceVersion)
	if err != nil {
		return nil, err
	}
	w := &watcher{
		store:     s,
		selector:  newSelector(opts.Predicate),
		bookmarks: opts.Predicate.AllowWatchBookmarks || opts.ProgressNotify,
		position:  after,
	}
	w.ctx, w.cancel = context.WithCancel(ctx)
	w.drain, _ = ctx.Value(drainKey{}).(<-chan struct{})
	// From here on errors are events, because the watch has begun.
	if w.failed = w.open(path, opts); w.failed == nil {
		flowcontrol.WatchInitialized(ctx)
	}
	w.unhook = context.AfterFunc(w.ctx, func() { w.begin.Do(w.close) })
	return w, nil
}

// watcher sends the events of the selected objects below a path. Only ResultChan starts a goroutine.
type watcher struct {
	store     *Store
	selector  selector
	bookmarks bool // are sent periodically
	source    storage.Watcher
	ctx       context.Context
	cancel    context.CancelFunc
	drain     <-chan struct{} // closed when the watch has to end with the latest write; may be nil
	failed    error           // that it could not be opened

	begin   sync.Once // of sending, or of closing a watch that is stopped before
	unhook  func() bool
	results chan watch.Event // nil unless ResultChan was called
	deliver func(watch.Event) error
	flush   func() error
	// deliverStored delivers initial events instead of deliver. It may be nil.
	deliverStored resource.SendStored

	initial  []*storage.Record // to be sent first, as ADDED
	selected selector          // of the initial objects
	announce bool              // with a bookmark that the initial events have been sent
	position uint64            // the revision up to which all events were sent
	sent     uint64            // how many events and bookmarks were sent
}

// open opens the watch, either with the existing objects or after a revision.
//
//upstream:k8s.io/apiserver/pkg/storage/etcd3.watcher.getStartWatchResourceVersion
//upstream:k8s.io/apiserver/pkg/storage/etcd3.areInitialEventsRequired
func (w *watcher) open(path string, opts apistorage.ListOptions) (err error) {
	s, after := w.store, w.position
	fresh := after == 0
	if opts.SendInitialEvents != nil {
		fresh = *opts.SendInitialEvents
		w.announce = fresh && opts.Predicate.AllowWatchBookmarks
	}
	if fresh {
		if err := s.await(w.ctx, after); err != nil {
			return err
		}
		q := storage.Query{Path: path, Scan: !s.converts()}
		w.selected = newSelector(s.useIndex(&q, opts.Predicate))
		page, err := s.backend.Range(w.ctx, q)
		if err != nil {
			return fromBackend(path, err)
		}
		w.initial, after = page.Records, page.Revision
	}
	w.position = after
	w.source, err = s.backend.Watch(w.ctx, path, after)
	return w.explain(err)
}

// explain translates an error of the source to the error for the client.
func (w *watcher) explain(err error) error {
	if errors.Is(err, storage.ErrCompacted) {
		_, oldest, failed := w.store.backend.Revisions(w.ctx)
		if failed == nil {
			return watchTooOld(w.position, oldest, err)
		}
	}
	return fromBackend(w.store.prefix, err)
}

// Stop implements watch.Interface.
func (w *watcher) Stop() { w.cancel() }

// ResultChan implements watch.Interface.
func (w *watcher) ResultChan() <-chan watch.Event {
	w.begin.Do(func() {
		w.results = make(chan watch.Event, resultBuffer)
		go func() {
			defer close(w.results)
			w.serve(w.enqueue, nil, func() error { return nil })
		}()
	})
	if w.results == nil { // the watch was stopped before
		closed := make(chan watch.Event)
		close(closed)
		return closed
	}
	return w.results
}

// enqueue sends an event to the channel.
func (w *watcher) enqueue(e watch.Event) error {
	select { // cheaper than the other one
	case w.results <- e:
		return nil
	default:
	}
	select {
	case w.results <- e:
		return nil
	case <-w.ctx.Done():
		return w.ctx.Err()
	}
}

var _ resource.EventServer = (*watcher)(nil)

// ServeEvents implements [resource.EventServer]. It replaces ResultChan: it does nothing if ResultChan was called before, or if the
// watch was stopped.
func (w *watcher) ServeEvents(send func(watch.Event) error, stored resource.SendStored, flush func() error) {
	w.begin.Do(func() { w.serve(send, stored, flush) })
}

// serve delivers the events until the watch ends.
func (w *watcher) serve(deliver func(watch.Event) error, stored resource.SendStored, flush func() error) {
	defer w.close()
	w.unhook()
	w.deliver, w.flush = deliver, flush
	if !w.store.converts() { // or else the converted objects are cached
		w.deliverStored = stored
	}
	err := w.failed
	if err == nil {
		err = w.sendInitial()
	}
	if err == nil {
		err = w.sendEvents()
	}
	if err != nil && w.ctx.Err() == nil {
		_ = w.send(watch.Error, status(err))
	}
}

// close releases the resources of the watch.
func (w *watcher) close() {
	w.cancel()
	if w.source != nil {
		w.source.Close()
	}
}

// sendInitial sends the initial events. Objects that are stored as the client wants them are not decoded.
func (w *watcher) sendInitial() error {
	stored := &storedObject{appender: appender{ctx: w.ctx, store: w.store}}
	for i, record := range w.initial {
		if i%preloadCount == 0 {
			record.Preload(w.initial[i:min(i+preloadCount, len(w.initial))])
		}
		w.initial[i] = nil // a slow client should not keep records that are replaced alive
		found, ok, err := w.store.examine(w.ctx, record, &w.selected, w.deliverStored != nil, &stored.scratch)
		if err == nil && ok {
			stored.item = found
			err = w.sendAdded(found, stored)
		}
		if err != nil {
			return err
		}
	}
	w.initial = nil
	if w.announce {
		bookmark := w.bookmark()
		if err := apistorage.AnnotateInitialEventsEndBookmark(bookmark); err != nil {
			return err
		}
		return w.send(watch.Bookmark, bookmark)
	}
	return w.ctx.Err()
}

// sendAdded sends the initial event of an item, from the stored object if possible.
func (w *watcher) sendAdded(it item, stored *storedObject) error {
	if it.object == nil {
		if err := w.ctx.Err(); err != nil {
			return err
		}
		sent, err := w.deliverStored(stored)
		if err != nil {
			w.cancel()
		}
		if sent || err != nil {
			w.sent++
			return err
		}
		if it.object, err = w.store.passing(w.ctx, it.record, nil); err != nil {
			return err
		}
	}
	return w.send(watch.Added, it.object.cacheable())
}

// sendEvents sends events and bookmarks until the watch ends.
func (w *watcher) sendEvents() error {
	timer := newBookmarkTimer(w.ctx, w.bookmarks)
	defer timer.stop()
	var progress <-chan struct{} // nil if the watch sends no bookmarks
	if w.bookmarks {
		progress = w.store.progress.requests()
	}
	for bookmark, requested, last := false, false, false; ; {
		events, revision, err := w.source.Next()
		if err != nil {
			return w.explain(err)
		}
		before := w.sent
		for _, e := range events {
			if err := w.sendEvent(e); err != nil {
				return err
			}
		}
		w.position = revision
		if bookmark || requested && len(events) == 0 {
			if err := w.send(watch.Bookmark, w.bookmark()); err != nil {
				return err
			}
			timer.next(w.ctx)
			bookmark, requested = false, false
		}
		if len(events) > 0 && w.sent > before {
			continue // events that are not flushed yet are sent with the next ones
		}
		if last && len(events) == 0 {
			return nil
		}
		if err := w.flush(); err != nil {
			w.cancel()
			return err
		}
		if len(events) > 0 { // more events may follow, with none selected
			select {
			case <-timer.due:
				bookmark = true
			case <-w.ctx.Done():
				return w.ctx.Err()
			default:
			}
			continue
		}
		select {
		case <-w.drain:
			last = true // read once more, for writes before drain was closed
		case <-w.source.Ready():
		case <-progress:
			requested, progress = true, w.store.progress.requests()
		case <-timer.due:
			bookmark = true
		case <-w.ctx.Done():
			return w.ctx.Err()
		}
	}
}

// sendEvent sends the event of a write if the old or the new object is selected: ADDED if only the new object is, and
// DELETED if only the old object is.
//
//upstream:k8s.io/apiserver/pkg/storage/etcd3.watchChan.transform
func (w *watcher) sendEvent(e *storage.Event) error {
	var now, before *object
	var is, was bool
	var err error
	if e.Type != storage.Deleted {
		if now, err = w.store.object(w.ctx, e.Record); err != nil {
			return err
		}
		is = w.selector.matches(now)
	}
	if was = e.Prev != nil && w.selector.all; !was && e.Prev != nil {
		if before, err = w.store.object(w.ctx, e.Prev); err != nil {
			return unreadable(e, err)
		}
		was = w.selector.matches(before)
	}
	switch {
	case is && was:
		return w.send(watch.Modified, now.cacheable())
	case is:
		return w.send(watch.Added, now.cacheable())
	case was && e.Type == storage.Deleted:
		if now, err = w.store.deleted(w.ctx, e); err != nil {
			return unreadable(e, err)
		}
		return w.send(watch.Deleted, now.cacheable())
	case was:
		last := before.shallow()
		w.store.setVersion(last, e.Record.Revision)
		return w.send(watch.Deleted, (&object{Object: last}).cacheable())
	}
	return nil
}

// bookmark returns an empty object with the resource version of the watch.
func (w *watcher) bookmark() runtime.Object {
	obj := w.store.newObject()
	w.store.setVersion(obj, w.position)
	return obj
}

// send sends an event. If sending fails or the watch has ended, send cancels the watch, because nothing can be sent
// after that, not even an error.
func (w *watcher) send(t watch.EventType, obj runtime.Object) error {
	if err := w.ctx.Err(); err != nil {
		return err
	}
	w.sent++
	err := w.deliver(watch.Event{Type: t, Object: obj})
	if err != nil {
		w.cancel()
	}
	return err
}

// bookmarkTimer fires when a bookmark is due: each minute, and shortly before the deadline of the watch.
type bookmarkTimer struct {
	due   <-chan time.Time // nil if there are no bookmarks
	timer *time.Timer
}

func newBookmarkTimer(ctx context.Context, wanted bool) *bookmarkTimer {
	t := &bookmarkTimer{}
	if wanted {
		t.timer = time.NewTimer(0)
		t.next(ctx)
	}
	return t
}

// next sets the timer for the next bookmark.
//
//upstream:k8s.io/apiserver/pkg/storage/cacher.cacheWatcher.nextBookmarkTime
func (t *bookmarkTimer) next(ctx context.Context) {
	wait := bookmarkFrequency
	if deadline, ok := ctx.Deadline(); ok {
		wait = min(wait, time.Until(deadline)-finalBookmark)
	}
	t.timer.Stop()
	if t.due = nil; wait > 0 {
		t.timer.Reset(wait)
		t.due = t.timer.C
	}
}

func (t *bookmarkTimer) stop() {
	if t.timer != nil {
		t.timer.Stop()
	}
}
