package fakeapi

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
)

// watcher is a watch, and the body of its response. The server's mutex guards pending and err.
type watcher struct {
	*filter
	server  *Server
	ctx     context.Context
	pending []byte
	err     error         // what reads return after the pending bytes, once it is not nil
	wake    chan struct{} // has an element if pending or err has changed
}

// watch starts a watch: from the initial events that a streaming list has, or from a version.
func (s *Server) watch(r *http.Request, f *filter, query url.Values) (*http.Response, error) {
	w := &watcher{filter: f, server: s, ctx: r.Context(), wake: make(chan struct{}, 1)}
	from, _ := strconv.Atoi(query.Get("resourceVersion"))
	switch {
	case query.Get("sendInitialEvents") == "true":
		if s.NoWatchList {
			return nil, apierrors.NewInvalid(schema.GroupKind{Group: "meta.k8s.io", Kind: "ListOptions"}, "", nil)
		}
		for _, obj := range s.of(f.plural) {
			w.send(change{plural: f.plural, after: obj})
		}
		if !s.NoInitialEventsEnd {
			w.bookmark(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
		}
	case from < s.Oldest:
		w.write(s.Frame(failure(apierrors.NewResourceExpired("too old resource version"))), io.EOF)
	default:
		for _, c := range s.history {
			if c.version > from {
				w.send(c)
			}
		}
	}
	if w.err == nil {
		s.watches = append(s.watches, w)
	}
	return response(http.StatusOK, s.serializer().MediaType, w), nil
}

// send sends the event of a change, unless the change does not concern the watch.
func (w *watcher) send(c change) {
	if c.plural != w.plural {
		return
	}
	event, obj := watch.Modified, c.after
	switch had, has := w.matches(c.before), w.matches(c.after); {
	case !had && !has:
		return
	case !had:
		event = watch.Added
	case !has:
		event, obj = watch.Deleted, c.before.DeepCopyObject().(Object)
		obj.SetResourceVersion(strconv.Itoa(c.version))
	}
	w.write(w.server.Frame(watch.Event{Type: event, Object: w.represent(obj)}), nil)
}

func (w *watcher) bookmark(annotations map[string]string) {
	obj := w.new("", &metav1.PartialObjectMetadata{}).(Object)
	obj.SetResourceVersion(strconv.Itoa(w.server.Version))
	obj.SetAnnotations(annotations)
	w.write(w.server.Frame(watch.Event{Type: watch.Bookmark, Object: obj}), nil)
}

// write adds to the body, and ends it with err if that is not nil.
func (w *watcher) write(data []byte, err error) {
	w.pending, w.err = append(w.pending, data...), err
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// Read implements io.Reader.
func (w *watcher) Read(p []byte) (n int, err error) {
	for {
		w.server.Do(func() {
			if size := w.server.ReadSize; size > 0 {
				p = p[:min(len(p), size)]
			}
			if n = copy(p, w.pending); n == 0 {
				err = w.err
			}
			w.pending = w.pending[n:]
		})
		if n > 0 || err != nil {
			return n, err
		}
		select {
		case <-w.wake:
		case <-w.ctx.Done():
			return 0, w.ctx.Err()
		}
	}
}

// Close implements io.Closer.
func (w *watcher) Close() error {
	w.server.Do(func() {
		w.server.watches = slices.DeleteFunc(w.server.watches, func(other *watcher) bool { return other == w })
		w.pending = nil
		w.write(nil, errors.New("http: read on closed response body"))
	})
	return nil
}

// Frame returns the bytes of a watch event.
func (s *Server) Frame(e watch.Event) []byte {
	return s.RawFrame(e.Type, encode(s.serializer().Serializer, e.Object))
}

// RawFrame returns the bytes of a watch event with an object that is encoded already, well or not.
func (s *Server) RawFrame(event watch.EventType, object []byte) []byte {
	stream := s.serializer().StreamSerializer
	var frame bytes.Buffer
	e := metav1.WatchEvent{Type: string(event), Object: runtime.RawExtension{Raw: object}}
	if err := stream.Encode(&e, stream.Framer.NewFrameWriter(&frame)); err != nil {
		panic(err)
	}
	return frame.Bytes()
}

func failure(err apierrors.APIStatus) watch.Event {
	return watch.Event{Type: watch.Error, Object: new(err.Status())}
}

// Bookmark sends the latest version to all watches.
func (s *Server) Bookmark() {
	s.Do(func() {
		for _, w := range s.watches {
			w.bookmark(nil)
		}
	})
}

// Send sends bytes to all watches, which need not be events.
func (s *Server) Send(data []byte) {
	s.Do(func() {
		for _, w := range s.watches {
			w.write(data, nil)
		}
	})
}

// SendEvent sends an event to all watches that is no part of the history.
func (s *Server) SendEvent(event watch.EventType, obj runtime.Object) {
	s.Send(s.Frame(watch.Event{Type: event, Object: obj}))
}

// EndWith ends all watches with the event that reports an error.
func (s *Server) EndWith(err apierrors.APIStatus) { s.end(s.Frame(failure(err)), io.EOF) }

// Break ends all watches: reads return err after what has been sent. io.EOF is the regular end.
func (s *Server) Break(err error) { s.end(nil, err) }

// end ends all watches in one step, so that it does not end one that a client opens because of the data.
func (s *Server) end(data []byte, err error) {
	s.Do(func() {
		for _, w := range s.watches {
			w.write(data, err)
		}
		s.watches = nil
	})
}

// Stall sends nothing more to the open watches, as if their connections were half open.
func (s *Server) Stall() { s.Do(func() { s.watches = nil }) }
