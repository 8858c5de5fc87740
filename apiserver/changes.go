package apiserver

import (
	"errors"

	"k8s.io/klog/v2"

	"flyball.dev/storage"
)

// changes returns a channel that has a value when an object with one of the keys may have changed
// since the last one was received. It watches until the server stops.
func (s *Server) changes(keys []string) (<-chan struct{}, error) {
	changed := make(chan struct{}, 1)
	for _, key := range keys {
		w, err := s.options.Storage.Watch(s.stopping, key, 0)
		if err != nil {
			return nil, err
		}
		s.work.Go(func() { s.forwardChanges(key, w, changed) })
	}
	return changed, nil
}

// forwardChanges sends to changed when an object changes, until the server stops.
func (s *Server) forwardChanges(key string, w storage.Watcher, changed chan<- struct{}) {
	defer func() { w.Close() }()
	for {
		select {
		case <-s.stopping.Done():
			return
		case <-w.Ready():
		}
		select {
		case changed <- struct{}{}:
		default: // a value is waiting already
		}
		events, _, err := w.Next()
		for err == nil && len(events) > 0 {
			events, _, err = w.Next()
		}
		if errors.Is(err, storage.ErrCompacted) { // as after Reset
			w.Close()
			if reopened, failed := s.options.Storage.Watch(s.stopping, key, 0); failed == nil {
				w, err = reopened, nil
			}
		}
		if err != nil {
			if s.stopping.Err() == nil {
				klog.ErrorS(err, "The objects of the system are not watched any more", "key", key)
			}
			return
		}
	}
}
