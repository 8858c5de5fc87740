package fake

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/watch"

	"flyball.dev/ctrl/client"
)

// bufferedEvents is how many events a watch buffers before it needs a goroutine.
const bufferedEvents = 100

// watcher is a watch of objects in memory. An event is in the channel when the write that caused it
// returns. Only while more events are pending than the channel holds does a goroutine send them, so
// that a watch that is never stopped leaves none behind unless its events are not received either.
type watcher struct {
	namespace string
	selected
	results chan watch.Event
	done    chan struct{} // closed when the watch has ended

	mu      sync.Mutex
	pending []watch.Event // that do not fit into the channel
	sending bool          // a goroutine sends pending
	stopped bool
	unhook  func() bool // of the context
}

// newWatcher returns a watch that ends when it is stopped, or with ctx.
func newWatcher(ctx context.Context, namespace string, s selected) *watcher {
	w := &watcher{
		namespace: namespace,
		selected:  s,
		results:   make(chan watch.Event, bufferedEvents),
		done:      make(chan struct{}),
	}
	unhook := context.AfterFunc(ctx, w.Stop)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.unhook = unhook
	return w
}

// selects reports whether the watch selects an object; it does not select nil.
func (w *watcher) selects(obj client.Object) bool {
	return obj != nil && (w.namespace == "" || w.namespace == obj.GetNamespace()) && (w.all || w.matches(obj))
}

// send sends an event, without waiting for its receiver.
func (w *watcher) send(t watch.EventType, obj client.Object) {
	e := watch.Event{Type: t, Object: w.convert(obj)}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped {
		return
	}
	if !w.sending {
		select {
		case w.results <- e:
			return
		default:
			w.sending = true
			go w.sendPending()
		}
	}
	w.pending = append(w.pending, e)
}

// sendPending sends pending events until there are none, or the watch has ended.
func (w *watcher) sendPending() {
	for {
		w.mu.Lock()
		if w.stopped {
			close(w.results)
		}
		if w.stopped || len(w.pending) == 0 {
			w.sending = false
			w.mu.Unlock()
			return
		}
		e := w.pending[0]
		w.pending = w.pending[1:]
		w.mu.Unlock()
		select {
		case w.results <- e:
		case <-w.done:
		}
	}
}

// Stop implements watch.Interface.
func (w *watcher) Stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped {
		return
	}
	w.stopped = true
	w.pending = nil
	close(w.done)
	if !w.sending {
		close(w.results)
	}
	if w.unhook != nil {
		w.unhook()
	}
}

// ResultChan implements watch.Interface.
func (w *watcher) ResultChan() <-chan watch.Event { return w.results }

func (w *watcher) ended() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.stopped
}
