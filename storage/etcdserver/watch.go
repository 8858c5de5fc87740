package etcdserver

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/protobuf/proto"

	"flyball.dev/storage"
)

// watchServer is the service Watch.
type watchServer struct {
	etcdserverpb.UnsafeWatchServer
	*Server
}

// noWatch is the ID in a response that is not about one watch.
const noWatch = -1

// The reasons for which a watch is not created, as etcd has them.
const (
	reasonEmptyRange = "mvcc: watcher range is empty"
	reasonDuplicate  = "mvcc: duplicate watch ID provided on the WatchStream"
)

// Watch implements etcdserverpb.WatchServer.
func (s *watchServer) Watch(stream etcdserverpb.Watch_WatchServer) error {
	ctx, cancel := context.WithCancelCause(stream.Context())
	ws := &watchStream{server: s.Server, stream: stream, ctx: ctx, fail: cancel, watches: map[int64]*watch{}}
	defer ws.close()
	go ws.receive() // until the stream ends, which is when this function has returned
	<-ctx.Done()
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
		return rpcError(err)
	}
	return rpctypes.ErrGRPCWatchCanceled
}

// watchStream is a stream with any number of watches. Each watch has a goroutine, and all send under one lock, so a
// goroutine that holds the lock can bring all watches up to date before it sends something of its own.
type watchStream struct {
	server *Server
	stream etcdserverpb.Watch_WatchServer
	ctx    context.Context
	// fail ends the stream with an error.
	fail context.CancelCauseFunc
	// following are the goroutines of the watches and of progress.
	following sync.WaitGroup

	mu      sync.Mutex
	closed  bool
	watches map[int64]*watch
	nextID  int64
	// notifying is set when a watch wants responses without events.
	notifying bool
}

// watch is one watch of a stream. The lock of the stream guards it.
type watch struct {
	id      int64
	keys    interval
	start   int64 // the first revision
	watcher storage.Watcher
	ended   chan struct{}

	noPut, noDelete, prevKV, fragment bool
	// progress says that the watch wants responses without events, and quiet that it has had no events since the last
	// interval.
	progress, quiet bool
}

// close ends all watches.
func (ws *watchStream) close() {
	ws.fail(nil)
	ws.mu.Lock()
	ws.closed = true
	for _, w := range ws.watches {
		ws.end(w)
	}
	ws.mu.Unlock()
	ws.following.Wait()
}

// end removes a watch. The caller holds the lock.
func (ws *watchStream) end(w *watch) {
	delete(ws.watches, w.id)
	w.watcher.Close()
	close(w.ended)
}

// send sends a response. The caller holds the lock.
func (ws *watchStream) send(r *etcdserverpb.WatchResponse) {
	if err := ws.stream.Send(r); err != nil {
		ws.fail(err)
	}
}

// receive handles the requests of the stream. When the client has sent all of them, the watches go on.
func (ws *watchStream) receive() {
	for {
		r, err := ws.stream.Recv()
		switch {
		case errors.Is(err, io.EOF):
			return
		case err != nil:
			ws.fail(err)
			return
		}
		if err := ws.handle(r); err != nil {
			ws.fail(err)
			return
		}
	}
}

func (ws *watchStream) handle(r *etcdserverpb.WatchRequest) error {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.closed {
		return nil
	}
	latest, compacted, err := ws.server.revisions(ws.ctx)
	if err != nil {
		return err
	}
	switch u := r.RequestUnion.(type) {
	case *etcdserverpb.WatchRequest_CreateRequest:
		return ws.create(u.CreateRequest, latest, compacted)
	case *etcdserverpb.WatchRequest_CancelRequest:
		if w := ws.watches[u.CancelRequest.WatchId]; w != nil {
			ws.end(w)
			ws.send(&etcdserverpb.WatchResponse{Header: ws.server.header(latest), WatchId: w.id, Canceled: true})
		}
	case *etcdserverpb.WatchRequest_ProgressRequest:
		ws.notifyAll(latest)
	}
	return nil
}

// create creates a watch. The caller holds the lock.
func (ws *watchStream) create(r *etcdserverpb.WatchCreateRequest, latest, compacted int64) error {
	if len(r.Key) == 0 {
		r.Key = []byte{0}
	}
	w := &watch{
		id: r.WatchId, keys: newInterval(r.Key, r.RangeEnd), start: r.StartRevision, ended: make(chan struct{}),
		prevKV: r.PrevKv, fragment: r.Fragment, progress: r.ProgressNotify, quiet: true,
	}
	for _, f := range r.Filters {
		w.noPut = w.noPut || f == etcdserverpb.WatchCreateRequest_NOPUT
		w.noDelete = w.noDelete || f == etcdserverpb.WatchCreateRequest_NODELETE
	}
	created := &etcdserverpb.WatchResponse{Header: ws.server.header(latest), Created: true}
	if created.CancelReason = ws.refuse(w); created.CancelReason != "" {
		created.WatchId, created.Canceled = noWatch, true
		ws.send(created)
		return nil
	}
	ws.chooseID(w)
	created.WatchId = w.id
	err := storage.ErrCompacted
	if w.start == 0 || w.start >= compacted {
		err = ws.open(w, latest)
	}
	if err != nil && !errors.Is(err, storage.ErrCompacted) {
		return err
	}
	ws.send(created)
	if err != nil {
		return ws.sendCompacted(w)
	}
	ws.watches[w.id] = w
	ws.following.Go(func() { ws.follow(w) })
	if w.progress && !ws.notifying {
		ws.notifying = true
		ws.following.Go(ws.notify)
	}
	return nil
}

// refuse returns why a watch cannot be created, or nothing.
func (ws *watchStream) refuse(w *watch) string {
	switch {
	case w.start < 0:
		return rpctypes.ErrCompacted.Error()
	case w.keys.end != "" && w.keys.start >= w.keys.end:
		return reasonEmptyRange
	case w.id != 0 && ws.watches[w.id] != nil:
		return reasonDuplicate
	}
	return ""
}

// chooseID gives a watch an ID if the client has given none.
func (ws *watchStream) chooseID(w *watch) {
	if w.id != 0 {
		return
	}
	for ws.watches[ws.nextID] != nil {
		ws.nextID++
	}
	w.id = ws.nextID
	ws.nextID++
}

// open opens the watcher of a watch. Without a start revision, the watch starts after the latest revision.
func (ws *watchStream) open(w *watch, latest int64) (err error) {
	after := latest
	if w.start > 0 {
		after = max(w.start-1, int64(storage.First))
	}
	w.watcher, err = ws.server.store.Watch(ws.ctx, w.keys.path(), uint64(after))
	return err
}

// follow delivers the events of a watch until it ends.
func (ws *watchStream) follow(w *watch) {
	for {
		if !ws.deliver(w) {
			continue
		}
		select {
		case <-w.watcher.Ready():
		case <-w.ended:
			return
		case <-ws.ctx.Done():
			return
		}
	}
}

// deliver sends the next events of a watch, and reports whether there are no more.
func (ws *watchStream) deliver(w *watch) bool {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	done, _ := ws.deliverLocked(w)
	return done
}

// deliverLocked is deliver, and also returns the revision up to which the client has all events. The caller holds the lock.
func (ws *watchStream) deliverLocked(w *watch) (done bool, revision int64) {
	if ws.watches[w.id] != w || ws.ctx.Err() != nil {
		return true, 0
	}
	events, reached, err := w.watcher.Next()
	switch {
	case errors.Is(err, storage.ErrCompacted):
		ws.cancelCompacted(w)
		return true, 0
	case err != nil:
		ws.fail(err)
		return true, 0
	case len(events) == 0:
		return true, int64(reached)
	}
	r := &etcdserverpb.WatchResponse{Header: ws.server.header(int64(reached)), WatchId: w.id, Events: ws.server.events(w, events)}
	if len(r.Events) == 0 {
		return false, int64(reached)
	}
	w.quiet = false
	if !w.fragment {
		ws.send(r)
		return false, int64(reached)
	}
	for _, part := range fragments(r) {
		ws.send(part)
	}
	return false, int64(reached)
}

// cancelCompacted ends a watch that has not read compacted events. The caller holds the lock.
func (ws *watchStream) cancelCompacted(w *watch) {
	ws.end(w)
	if err := ws.sendCompacted(w); err != nil {
		ws.fail(err)
	}
}

// sendCompacted tells the client that a watch has ended, and the compact revision. If the store cannot be watched from there
// either, it tells the first revision that a watch can begin at. The caller holds the lock.
func (ws *watchStream) sendCompacted(w *watch) error {
	_, compacted, err := ws.server.revisions(ws.ctx)
	if err == nil && w.start >= compacted {
		var oldest uint64
		_, oldest, err = ws.server.store.Revisions(ws.ctx)
		compacted = max(compacted, int64(oldest)+1)
	}
	if err != nil {
		return err
	}
	ws.send(&etcdserverpb.WatchResponse{Header: ws.server.header(0), WatchId: w.id, Canceled: true, CompactRevision: compacted})
	return nil
}

// events returns the events that a watch wants.
func (s *Server) events(w *watch, events []*storage.Event) (wanted []*mvccpb.Event) {
	compacted := int64(-1)
	if w.prevKV {
		compacted = s.requested()
	}
	for _, e := range events {
		deleted := e.Type == storage.Deleted
		if !w.keys.contains(e.Record.Key) || deleted && w.noDelete || !deleted && w.noPut {
			continue
		}
		event := &mvccpb.Event{Type: mvccpb.Event_PUT}
		if deleted {
			event.Type, event.Kv = mvccpb.Event_DELETE, &mvccpb.KeyValue{Key: []byte(e.Record.Key), ModRevision: int64(e.Record.Revision)}
		} else {
			event.Kv = keyValue(e.Record)
		}
		if w.prevKV && e.Prev != nil && int64(e.Record.Revision)-1 >= compacted {
			event.PrevKv = keyValue(e.Prev)
		}
		wanted = append(wanted, event)
	}
	return wanted
}

// fragments splits a response that is larger than a request may be. Each part has at least one event.
func fragments(r *etcdserverpb.WatchResponse) []*etcdserverpb.WatchResponse {
	if proto.Size(r) < maxRequest+requestOverhead {
		return []*etcdserverpb.WatchResponse{r}
	}
	var parts []*etcdserverpb.WatchResponse
	size := 0
	for _, e := range r.Events {
		n := proto.Size(e)
		if size += n; len(parts) == 0 || size > maxRequest {
			parts = append(parts, &etcdserverpb.WatchResponse{Header: r.Header, WatchId: r.WatchId, Fragment: true})
			size = n
		}
		last := parts[len(parts)-1]
		last.Events = append(last.Events, e)
	}
	parts[len(parts)-1].Fragment = false
	return parts
}

// notifyAll brings all watches up to date, and then tells the client so in one response. A watch that starts in the future
// has not begun, so there is no response, as in etcd. The caller holds the lock.
func (ws *watchStream) notifyAll(latest int64) {
	for _, w := range ws.watches {
		if latest < w.start {
			return
		}
	}
	for _, w := range ws.watches {
		ws.catchUp(w)
	}
	if len(ws.watches) > 0 && ws.ctx.Err() == nil {
		ws.send(&etcdserverpb.WatchResponse{Header: ws.server.header(latest), WatchId: noWatch})
	}
}

// catchUp delivers all events of a watch, and returns the revision up to which the client has them.
func (ws *watchStream) catchUp(w *watch) int64 {
	for {
		if done, revision := ws.deliverLocked(w); done {
			return revision
		}
	}
}

// notify sends, about once in an interval, a response for each watch that wants it and has had no events.
func (ws *watchStream) notify() {
	interval := ws.server.options.ProgressInterval
	ticker := time.NewTicker(interval + rand.N(interval/10+1)) // so that streams do not all send at once
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-ws.ctx.Done():
			return
		}
		ws.mu.Lock()
		for _, w := range ws.watches {
			if !w.progress {
				continue
			}
			if revision := ws.catchUp(w); w.quiet && revision >= w.start && revision > 0 {
				ws.send(&etcdserverpb.WatchResponse{Header: ws.server.header(revision), WatchId: w.id})
			}
			w.quiet = true
		}
		ws.mu.Unlock()
	}
}
