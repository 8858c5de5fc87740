// Package listener delivers notifications about an informer's objects to one event handler.
//
// Adding a notification never blocks. Changes of an object coalesce into the pending notification
// of its last add or update, as long as the object exists; deletions, and what follows them, are
// notifications of their own. So the number of pending notifications is bounded by the number of
// objects and deletions, and no handler misses that an object was added or deleted. A handler may
// ask for each change; then changes coalesce only while many notifications are pending. Pending
// notifications refer to packed objects, as in the store; the values passed to the handler are
// decoded on delivery.
//
// The handler of the development checks asks for each change (optional.EachChange).
package listener

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"

	"flyball.dev/ctrl/cache/internal/store"
)

// Listener delivers notifications to one event handler, one at a time and in order. Use New to make
// one. It implements toolscache.ResourceEventHandlerRegistration.
type Listener struct {
	name    string
	handler toolscache.ResourceEventHandler
	resync  time.Duration
	each    bool // see New

	mu sync.Mutex
	// first and last are the ends of the linked list of pending notifications.
	first, last *notification
	pending     int
	// latest is the pending notification of an object that later changes coalesce into.
	latest map[types.NamespacedName]*notification
	// busy is set while the handler is called, and idle is closed when all is delivered.
	busy bool
	idle []chan struct{}
	// added is signalled when a notification was added.
	added chan struct{}

	synced chan struct{}
	closed chan struct{}
	close  func()
}

// maxDecoded is how many pending notifications keep the decoded values of their objects. Further
// ones keep packed objects only, so that a slow handler does not hold everything in memory twice.
const maxDecoded = 256

// notification is a pending call of the handler: an object was added (before is nil), updated
// (neither is nil) or deleted (after is nil). If both are nil, it marks the end of the initial
// list.
type notification struct {
	before, after *store.Snapshot
	isInInitial   bool
	// finalStateUnknown is set if the deletion itself was missed, so that before may be stale.
	finalStateUnknown bool
	next              *notification
}

// New returns a listener that delivers nothing until Run. A positive resync is the resync period. If
// each is set, changes of an object coalesce only while maxDecoded notifications are pending.
func New(name string, handler toolscache.ResourceEventHandler, resync time.Duration, each bool) *Listener {
	l := &Listener{
		name:    name,
		handler: handler,
		resync:  resync,
		each:    each,
		latest:  map[types.NamespacedName]*notification{},
		added:   make(chan struct{}, 1),
		synced:  make(chan struct{}),
		closed:  make(chan struct{}),
	}
	l.close = sync.OnceFunc(func() { close(l.closed) })
	return l
}

// EachChange reports whether the handler wants each change.
func (l *Listener) EachChange() bool { return l.each }

// NotifyAdd adds a notification that an object was added, in the initial list or later.
func (l *Listener) NotifyAdd(obj *store.Snapshot, isInInitialList bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := &notification{after: l.retain(obj), isInInitial: isInInitialList}
	l.latest[obj.Key] = n
	l.add(n)
}

// NotifyUpdate adds a notification that an object changed, or coalesces the change into the pending
// notification of the object.
func (l *Listener) NotifyUpdate(before, after *store.Snapshot) {
	l.mu.Lock()
	defer l.mu.Unlock()
	key := after.Key
	if n := l.latest[key]; n != nil && (!l.each || l.pending >= maxDecoded) {
		n.after = l.retain(after)
		return
	}
	n := &notification{before: before, after: l.retain(after)}
	l.latest[key] = n
	l.add(n)
}

// NotifyDelete adds a notification that an object was deleted. If finalStateUnknown is set, the
// deletion itself was missed, and the object is passed in a DeletedFinalStateUnknown.
func (l *Listener) NotifyDelete(obj *store.Snapshot, finalStateUnknown bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.latest, obj.Key)
	l.add(&notification{before: obj, finalStateUnknown: finalStateUnknown})
}

// NotifySynced adds the notification that the initial list is complete.
func (l *Listener) NotifySynced() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.add(&notification{})
}

// retain returns the part of an object that a new notification keeps.
func (l *Listener) retain(obj *store.Snapshot) *store.Snapshot {
	if l.pending < maxDecoded {
		return obj
	}
	return obj.Packed()
}

// add appends a notification. The caller holds mu.
func (l *Listener) add(n *notification) {
	l.pending++
	if l.last == nil {
		l.first = n
	} else {
		l.last.next = n
	}
	l.last = n
	select {
	case l.added <- struct{}{}:
	default:
	}
}

// pop removes the oldest notification and returns it, or nil. Nothing coalesces into it any more.
func (l *Listener) pop() *notification {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.first
	l.busy = n != nil
	if n == nil {
		for _, idle := range l.idle {
			close(idle)
		}
		l.idle = nil
		return nil
	}
	l.pending--
	if l.first = n.next; l.first == nil {
		l.last = nil
	}
	if n.after != nil {
		key := n.after.Key
		if l.latest[key] == n {
			delete(l.latest, key)
		}
	}
	return n
}

// Run delivers notifications until ctx is done or the listener is closed. When a resync is due it
// calls resync, which calls NotifyUpdate for every object, from itself to itself.
func (l *Listener) Run(ctx context.Context, resync func(*Listener)) {
	defer l.close()
	var due <-chan time.Time
	if l.resync > 0 {
		ticker := time.NewTicker(l.resync)
		defer ticker.Stop()
		due = ticker.C
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.closed:
			return
		case <-due:
			resync(l)
		case <-l.added:
			l.drain(ctx)
		}
	}
}

// drain delivers all pending notifications, unless the listener ends first.
func (l *Listener) drain(ctx context.Context) {
	for n := l.pop(); n != nil; n = l.pop() {
		select {
		case <-ctx.Done():
			return
		case <-l.closed:
			return
		default:
			l.notify(n)
		}
	}
}

// notify calls the handler.
func (l *Listener) notify(n *notification) {
	switch {
	case n.before == nil && n.after == nil:
		close(l.synced)
	case n.before == nil:
		l.handler.OnAdd(n.after.Object(), n.isInInitial)
	case n.after != nil:
		l.handler.OnUpdate(n.before.Object(), n.after.Object())
	case n.finalStateUnknown:
		obj := n.before.Object()
		key := toolscache.MetaObjectToName(obj).String()
		l.handler.OnDelete(toolscache.DeletedFinalStateUnknown{Key: key, Obj: obj})
	default:
		l.handler.OnDelete(n.before.Object())
	}
}

// WaitDelivered waits until the handler has returned from all notifications that were added before.
// It returns nil if the listener ends first, and the error of ctx if that ends first.
func (l *Listener) WaitDelivered(ctx context.Context) error {
	l.mu.Lock()
	if l.pending == 0 && !l.busy {
		l.mu.Unlock()
		return nil
	}
	idle := make(chan struct{})
	l.idle = append(l.idle, idle)
	l.mu.Unlock()
	select {
	case <-idle:
		return nil
	case <-l.closed:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Close ends the listener. A call of the handler in progress continues.
func (l *Listener) Close() {
	l.close()
}

// HasSynced reports whether the whole initial list was delivered to the handler.
func (l *Listener) HasSynced() bool {
	return toolscache.IsDone(l)
}

// HasSyncedChecker returns a DoneChecker for HasSynced.
func (l *Listener) HasSyncedChecker() toolscache.DoneChecker {
	return l
}

// Name implements toolscache.DoneChecker.
func (l *Listener) Name() string {
	return l.name
}

// Done implements toolscache.DoneChecker.
func (l *Listener) Done() <-chan struct{} {
	return l.synced
}
