package cache

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/ctrl/cache/internal/listener"
	"flyball.dev/ctrl/cache/internal/store"
	"flyball.dev/ctrl/client"
)

// progressInterval is how often the progress of a watch is requested again. Once is enough, unless
// the watch was just being opened.
const progressInterval = 100 * time.Millisecond

// WaitDelivered waits until the event handlers of all kinds that have some have returned from the
// events of all writes that were made before the call, by anybody. It asks the API server for the
// present resource version of each kind, and waits until the watch has reached it.
//
// Flyball's API server sends a bookmark then. Another one sends one in a minute or so; there the kind
// is listed, and its watch has reached the list when the cache has the objects of the list. In that case, the
// events of an object that was created and deleted again may still be on their way.
//
// It returns the error of ctx if that ends first, and errors of the API but for kinds that are not
// served. It is Flyball's own; [manager.WaitIdle] calls it.
func (c *informerCache) WaitDelivered(ctx context.Context) error {
	select {
	case <-c.started:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	for _, i := range c.allInformers() {
		if err := i.waitDelivered(ctx); err != nil {
			return fmt.Errorf("%s: %w", i.gvk, err)
		}
	}
	return nil
}

// waitDelivered is WaitDelivered for one informer. One that ends has nothing to deliver.
func (i *informer) waitDelivered(ctx context.Context) error {
	i.mu.Lock()
	some := len(i.listeners) > 0
	i.mu.Unlock()
	if !some {
		return nil
	}
	for _, p := range i.partitions {
		if err := p.waitReached(ctx); err != nil {
			if i.ctx.Err() != nil {
				return nil
			}
			return err
		}
	}
	i.mu.Lock()
	var listeners []*listener.Listener
	if i.running {
		listeners = slices.Clone(i.listeners)
	}
	i.mu.Unlock()
	for _, l := range listeners {
		if err := l.WaitDelivered(ctx); err != nil {
			return err
		}
	}
	return nil
}

// waitReached waits until the partition has received the events of all writes before the call.
func (p *partition) waitReached(ctx context.Context) error {
	version, requested, err := p.requestProgress(ctx)
	if err != nil {
		// No objects of a kind that is not served can change.
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	}
	reached := func() bool { return p.scope.Reached(version) }
	if !requested {
		list := map[store.Key]uint64{}
		text, err := p.listerWatcher.liveList(ctx, "", "", func(obj client.Object) {
			list[client.ObjectKeyFromObject(obj)], _ = store.Version(obj)
		})
		if err != nil {
			return err
		}
		if version, err = strconv.ParseUint(text, 10, 64); err != nil {
			return fmt.Errorf("resource version of a list: %w", err)
		}
		reached = func() bool { return p.scope.Reached(version) || p.scope.Agrees(list, version) }
	}
	again := time.NewTimer(progressInterval)
	defer again.Stop()
	for {
		arrival := p.arrivals.next()
		if reached() {
			return nil
		}
		select {
		case <-arrival:
		case <-again.C:
			if requested {
				if _, _, err := p.requestProgress(ctx); err != nil {
					return err
				}
			}
			again.Reset(progressInterval)
		case <-p.informer.ctx.Done():
			return nil
		case <-ctx.Done():
			return fmt.Errorf("waiting for the watch to reach resource version %d: %w", version, context.Cause(ctx))
		}
	}
}

// requestProgress returns the present resource version, and whether the watch will get a bookmark.
func (p *partition) requestProgress(ctx context.Context) (version uint64, requested bool, err error) {
	text, requested, err := p.listerWatcher.client.Progress(ctx, p.listerWatcher.withSelectors(metav1.ListOptions{}))
	if err != nil {
		return 0, false, err
	}
	if version, err = strconv.ParseUint(text, 10, 64); err != nil {
		return 0, false, fmt.Errorf("resource version of a list: %w", err)
	}
	bookmarks := p.config.EnableWatchBookmarks == nil || *p.config.EnableWatchBookmarks
	_, custom := p.source.(*customInformer) // which keeps bookmarks to itself
	return version, requested && bookmarks && !custom, nil
}

// arrivals wakes the goroutines that wait for something to arrive from the server. The zero value is
// ready to use.
type arrivals struct {
	waiting atomic.Bool // some has the lock, so that signal is cheap without

	mu   sync.Mutex
	some chan struct{} // closed by signal; nil if nobody waits
}

// next returns a channel that is closed by the next signal.
func (a *arrivals) next() <-chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.some == nil {
		a.some = make(chan struct{})
		a.waiting.Store(true)
	}
	return a.some
}

// signal wakes the waiting goroutines.
func (a *arrivals) signal() {
	if !a.waiting.Load() {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.some != nil {
		close(a.some)
		a.some = nil
		a.waiting.Store(false)
	}
}
