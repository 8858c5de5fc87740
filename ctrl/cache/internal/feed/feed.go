// Package feed delivers the changes of an informer's objects to one handler.
//
// Adding to a feed never blocks. What happens to an object while its last
// notice waits is merged into that notice, if the notice tells of an add or an
// update and the object is still there; deletions and what follows them stay
// apart. So what waits is bounded by the number of objects and deletions, and
// nobody misses that an object came or went. What waits is packed, as the store
// has it; the values that the handler is given are made when their turn comes.
package feed

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"

	"flyball.dev/ctrl/cache/internal/store"
)

// Feed delivers to one handler, one notice at a time and in order. Use New to
// make one. It implements toolscache.ResourceEventHandlerRegistration.
type Feed struct {
	name    string
	handler toolscache.ResourceEventHandler
	resync  time.Duration

	mu          sync.Mutex
	first, last *notice
	waiting     int
	// latest is the notice of an object that later changes may be merged into.
	latest map[types.NamespacedName]*notice
	// more is signalled when a notice was added.
	more chan struct{}

	synced chan struct{}
	closed chan struct{}
	close  func()
}

// decodedAtMost is how many notices wait with Go values of their objects. Those of
// further ones are made again when their turn comes, so that a handler that is
// slow does not hold everything in memory twice.
const decodedAtMost = 256

// notice is something to tell the handler: that an object was added (before is
// nil), updated (neither is nil) or deleted (after is nil), or, if all is nil,
// that everything before the sync was told.
type notice struct {
	before, after *store.Snapshot
	initial       bool
	unknown       bool
	next          *notice
}

// New returns a feed that tells nothing until Run. If resync is positive, Run
// asks for a resync that often.
func New(name string, handler toolscache.ResourceEventHandler, resync time.Duration) *Feed {
	f := &Feed{
		name:    name,
		handler: handler,
		resync:  resync,
		latest:  map[types.NamespacedName]*notice{},
		more:    make(chan struct{}, 1),
		synced:  make(chan struct{}),
		closed:  make(chan struct{}),
	}
	f.close = sync.OnceFunc(func() { close(f.closed) })
	return f
}

// Added adds that an object came into view, initially or later.
func (f *Feed) Added(obj *store.Snapshot, initial bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := &notice{after: f.kept(obj), initial: initial}
	f.latest[obj.Key] = n
	f.push(n)
}

// Updated adds that an object changed.
func (f *Feed) Updated(before, after *store.Snapshot) {
	f.mu.Lock()
	defer f.mu.Unlock()
	key := after.Key
	if n := f.latest[key]; n != nil {
		n.after = f.kept(after)
		return
	}
	n := &notice{before: before, after: f.kept(after)}
	f.latest[key] = n
	f.push(n)
}

// Deleted adds that an object went out of view, in that state or, if unknown is
// set, in a later one.
func (f *Feed) Deleted(obj *store.Snapshot, unknown bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.latest, obj.Key)
	f.push(&notice{before: obj, unknown: unknown})
}

// Synced adds that the initial list is complete.
func (f *Feed) Synced() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.push(&notice{})
}

// kept returns what a new notice keeps of an object.
func (f *Feed) kept(obj *store.Snapshot) *store.Snapshot {
	if f.waiting < decodedAtMost {
		return obj
	}
	return obj.Packed()
}

func (f *Feed) push(n *notice) {
	f.waiting++
	if f.last == nil {
		f.first = n
	} else {
		f.last.next = n
	}
	f.last = n
	select {
	case f.more <- struct{}{}:
	default:
	}
}

// pop takes the oldest notice, or nil. Nothing is merged into it any more.
func (f *Feed) pop() *notice {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.first
	if n == nil {
		return nil
	}
	f.waiting--
	if f.first = n.next; f.first == nil {
		f.last = nil
	}
	if n.after != nil {
		key := n.after.Key
		if f.latest[key] == n {
			delete(f.latest, key)
		}
	}
	return n
}

// Run delivers until ctx is done or the feed is closed. When a resync is due it
// calls resync, which adds every object as an update from itself to itself.
func (f *Feed) Run(ctx context.Context, resync func(*Feed)) {
	defer f.close()
	var due <-chan time.Time
	if f.resync > 0 {
		ticker := time.NewTicker(f.resync)
		defer ticker.Stop()
		due = ticker.C
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-f.closed:
			return
		case <-due:
			resync(f)
		case <-f.more:
			f.drain(ctx)
		}
	}
}

// drain delivers all that waits, unless the feed ends first.
func (f *Feed) drain(ctx context.Context) {
	for n := f.pop(); n != nil; n = f.pop() {
		select {
		case <-ctx.Done():
			return
		case <-f.closed:
			return
		default:
			f.tell(n)
		}
	}
}

func (f *Feed) tell(n *notice) {
	switch {
	case n.before == nil && n.after == nil:
		close(f.synced)
	case n.before == nil:
		f.handler.OnAdd(n.after.Object(), n.initial)
	case n.after != nil:
		f.handler.OnUpdate(n.before.Object(), n.after.Object())
	case n.unknown:
		obj := n.before.Object()
		f.handler.OnDelete(toolscache.DeletedFinalStateUnknown{Key: toolscache.MetaObjectToName(obj).String(), Obj: obj})
	default:
		f.handler.OnDelete(n.before.Object())
	}
}

// Close ends the feed. A call of the handler that is under way goes on.
func (f *Feed) Close() {
	f.close()
}

// HasSynced tells whether the handler has heard of the whole initial list.
func (f *Feed) HasSynced() bool {
	return toolscache.IsDone(f)
}

// HasSyncedChecker is HasSynced as something to wait for.
func (f *Feed) HasSyncedChecker() toolscache.DoneChecker {
	return f
}

// Name implements toolscache.DoneChecker.
func (f *Feed) Name() string {
	return f.name
}

// Done implements toolscache.DoneChecker.
func (f *Feed) Done() <-chan struct{} {
	return f.synced
}
