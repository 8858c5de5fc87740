package background

import (
	"context"
	"errors"
	"sync"
	"time"

	"k8s.io/klog/v2"

	"flyball.dev/storage"
)

// The delays before the server retries to reconcile its own objects. They double from the first to the last, as in the
// controllers of kube-apiserver.
const (
	firstRetry = 5 * time.Millisecond
	lastRetry  = 1000 * time.Second
)

// ForkDelay is the time from a fork until it reconciles its own objects. The other server has done so, with the possible
// exception of the last changes, and a fork for one test shall not pay for it.
const ForkDelay = time.Second

// loops are the goroutines of the controllers.
type loops struct {
	storage   storage.Store
	stopping  context.Context
	exclusive func(func())
	fork      bool // the first reconciliation is later
	work      sync.WaitGroup
}

// keep calls reconcile once, and then whenever changed has a value, until the server stops. In a fork, the first call is
// in the background, at the first change or after ForkDelay. After an error keep retries. It does not call reconcile while the server is being
// reset.
//
//upstream:none kube-apiserver has queues and informers.
func (l *loops) keep(what string, changed chan struct{}, reconcile func() error) {
	var retry <-chan time.Time
	delay := firstRetry
	attempt := func() {
		err := reconcile()
		if err == nil || l.stopping.Err() != nil {
			retry, delay = nil, firstRetry
			return
		}
		klog.ErrorS(err, "Cannot reconcile objects of the server", "objects", what, "retryAfter", delay)
		retry, delay = time.After(delay), min(2*delay, lastRetry)
	}
	if !l.fork {
		attempt()
	} else {
		retry = time.After(ForkDelay)
	}
	l.work.Go(func() {
		for {
			select {
			case <-l.stopping.Done():
				return
			case <-changed:
			case <-retry:
			}
			l.exclusive(attempt)
		}
	})
}

// notify sends a value to a channel with a buffer of one, unless the buffer is full.
func notify(changed chan<- struct{}) {
	select {
	case changed <- struct{}{}:
	default:
	}
}

// changes returns a channel that receives a value when an object under one of the paths may have changed. The watches
// run until the server stops.
func (l *loops) changes(paths []string) (chan struct{}, error) {
	changed := make(chan struct{}, 1)
	for _, path := range paths {
		w, err := l.storage.Watch(l.stopping, path, 0)
		if err != nil {
			return nil, err
		}
		l.work.Go(func() { l.forwardChanges(path, w, changed) })
	}
	return changed, nil
}

// forwardChanges notifies changed when an object under a path changes, until the server stops.
//
//upstream:none kube-apiserver has queues and informers.
func (l *loops) forwardChanges(path string, w storage.Watcher, changed chan<- struct{}) {
	defer func() { w.Close() }()
	for {
		select {
		case <-l.stopping.Done():
			return
		case <-w.Ready():
		}
		notify(changed)
		events, _, err := w.Next()
		for err == nil && len(events) > 0 {
			events, _, err = w.Next()
		}
		if errors.Is(err, storage.ErrCompacted) { // as after Reset
			if reopened, failed := storage.Rewatch(l.stopping, l.storage, path); failed == nil {
				w.Close()
				w, err = reopened, nil
				notify(changed)
			}
		}
		if err != nil {
			if l.stopping.Err() == nil {
				klog.ErrorS(err, "The server no longer watches its own objects", "path", path)
			}
			return
		}
	}
}
