// Package reflector keeps a picture of the objects of one kind up to date: it
// lists them, watches them, and lists them again when the server can no longer
// continue a watch.
//
// What comes next in which situation is decided by a pure state machine. The
// reflector around it does what the machine says, one thing at a time, on the
// goroutine that runs it; but for the next page of a list, which is asked for
// while the objects of the last one are passed on.
package reflector

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiwatch "k8s.io/apimachinery/pkg/watch"

	"flyball.dev/ctrl/cache/internal/wire"
	"flyball.dev/ctrl/client"
)

// Source is where objects come from: one kind, perhaps of one namespace.
type Source interface {
	// List returns a page of a list. It may be asked for the next page while the
	// objects of this one are still being decoded.
	List(ctx context.Context, opts metav1.ListOptions) (*wire.Page, error)
	// Watch opens a watch. It ends with ctx.
	Watch(ctx context.Context, opts metav1.ListOptions) (Stream, error)
}

// Stream is an open watch.
type Stream interface {
	// Next returns what happened next, one event at least, waiting for it if it
	// must. It returns io.EOF when the watch has ended in good order, and another
	// error when it broke. The caller owns the objects, and the slice until the
	// next call.
	Next() ([]apiwatch.Event, error)
	// Close ends the watch. When it returns, nothing of it is left running.
	Close()
}

// Sink takes what a reflector learns, in order and from one goroutine. It owns
// the objects that it is given.
type Sink interface {
	// Begin tells that a list begins. If it breaks off, another one begins.
	Begin()
	// Listed gives an object of the list.
	Listed(client.Object)
	// Complete ends the list: objects that were not listed are gone.
	Complete(version string)
	// Changed gives an object that was added or modified.
	Changed(client.Object)
	// Deleted gives an object that was deleted or no longer matches.
	Deleted(client.Object)
	// Progress tells that there is nothing new up to a version.
	Progress(version string)
	// Idle is called when all events that were read are passed on, before the next
	// one is waited for.
	Idle()
}

// Reflector fills a sink from a source. Use its Run once.
type Reflector struct {
	Source Source
	Sink   Sink

	// Bookmarks asks the server to tell the version from time to time. Without
	// them lists do not stream.
	Bookmarks bool

	// OnError is told of every error before the reflector waits to try again.
	OnError func(context.Context, error)

	machine machine
	watch   *openWatch
	prefetched   *pageRequest
	// err is the error behind the last signal, for OnError and for the server's
	// wish how long to wait.
	err error
}

const (
	// pageSize is how many objects a page of a list holds at most.
	pageSize = 500
	// minWatchTimeout and watchAtMost bound how long the server is asked to keep a
	// watch open. The jitter keeps watches from ending together.
	minWatchTimeout, maxWatchTimeout = 5 * time.Minute, 10 * time.Minute
	// watchGrace is how long a watch may be open beyond that before the
	// connection is taken for dead.
	watchGrace = 30 * time.Second
	// stableAfter is how long a watch must have been open for its end not to count
	// as a failure.
	stableAfter = 5 * time.Second
	// initialEventsTimeout is how long a streaming list may be silent before the server is
	// taken for one that does not know of them: it would never end the list.
	initialEventsTimeout = 15 * time.Second
	// The first wait after a failure, which doubles with each, and the longest.
	minBackOff, maxBackOff = 200 * time.Millisecond, 30 * time.Second
)

// Run lists and watches until ctx is done.
func (r *Reflector) Run(ctx context.Context) {
	defer r.closeWatch()
	defer r.cancelPrefetch()
	r.machine.paging = !r.Bookmarks
	for next := r.machine.begin(); ctx.Err() == nil; {
		in := r.perform(ctx, next)
		if ctx.Err() != nil {
			return
		}
		before := r.machine.state
		r.machine, next = r.machine.step(in)
		r.transitioned(before)
	}
}

// transitioned does what a change of state brings with it.
func (r *Reflector) transitioned(before state) {
	after := r.machine.state
	if after != watching && after != streaming {
		r.closeWatch()
	}
	if after != listing {
		r.cancelPrefetch()
	}
	if (after == synced || after == watching) && (before == empty || before == listing || before == streaming) {
		r.Sink.Complete(r.machine.version)
	}
}

// perform does what the machine says and tells what came of it.
func (r *Reflector) perform(ctx context.Context, a action) input {
	switch a {
	case stream:
		return r.open(ctx, metav1.ListOptions{
			SendInitialEvents:    new(true),
			ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
			AllowWatchBookmarks:  true,
		})
	case list:
		return r.list(ctx)
	case watch:
		return r.open(ctx, metav1.ListOptions{
			ResourceVersion:     r.machine.version,
			AllowWatchBookmarks: r.Bookmarks,
		})
	case read:
		return r.read()
	default:
		return r.backOff(ctx)
	}
}

// list asks for a page of a list and passes its objects on. Meanwhile it asks
// for the page that follows.
func (r *Reflector) list(ctx context.Context) input {
	page, err := r.requestPage(ctx, r.machine.next).wait()
	if err != nil {
		return r.failure(err)
	}
	if r.machine.state == empty {
		r.Sink.Begin()
	}
	if page.Next != "" {
		r.prefetched = newPageRequest(ctx, r.Source, page.Next)
	}
	for obj, err := range page.Objects {
		if err != nil {
			return r.failure(err)
		}
		if ctx.Err() != nil {
			break
		}
		r.Sink.Listed(obj)
	}
	return input{signal: pageReceived, version: page.Version, next: page.Next}
}

// open opens a watch.
func (r *Reflector) open(ctx context.Context, opts metav1.ListOptions) input {
	timeout := minWatchTimeout + rand.N(maxWatchTimeout-minWatchTimeout)
	opts.TimeoutSeconds = new(int64(timeout.Seconds()))
	w, err := newOpenWatch(ctx, r.Source, opts, timeout+watchGrace)
	if err != nil {
		return r.failure(err)
	}
	r.watch = w
	if opts.SendInitialEvents != nil {
		r.Sink.Begin()
	}
	return input{signal: opened}
}

// read takes an event from the open watch and passes it on.
func (r *Reflector) read() input {
	if len(r.watch.events) == 0 {
		r.Sink.Idle()
	}
	event, err := r.watch.event(r.machine.state == streaming)
	var in input
	switch {
	case err == nil:
		in = r.event(event)
	case errors.Is(err, io.EOF):
		r.err = ErrWatchEnded
		in = input{signal: ended}
	case errors.Is(err, ErrInitialEventsTimeout):
		r.err = err
		in = input{signal: unsupported}
	default:
		in = r.failure(err)
	}
	in.stable = r.watch.stable
	return in
}

// event passes an event on.
func (r *Reflector) event(event apiwatch.Event) input {
	if event.Type == apiwatch.Error {
		return r.failure(apierrors.FromObject(event.Object))
	}
	obj, ok := event.Object.(client.Object)
	if !ok {
		r.err = ErrNotAnObject
		return input{signal: decodingFailed}
	}
	version := obj.GetResourceVersion()
	switch event.Type {
	case apiwatch.Bookmark:
		if r.machine.state == streaming {
			if obj.GetAnnotations()[metav1.InitialEventsAnnotationKey] == "true" {
				return input{signal: listCompleted, version: version}
			}
			break
		}
		r.Sink.Progress(version)
	case apiwatch.Deleted:
		r.Sink.Deleted(obj)
	default:
		if r.machine.state == streaming {
			r.Sink.Listed(obj)
		} else {
			r.Sink.Changed(obj)
		}
	}
	return input{signal: received, version: version}
}

// failure turns an error into a signal.
func (r *Reflector) failure(err error) input {
	r.err = err
	return input{signal: classify(err, r.machine)}
}

// backOff tells of the error and waits, the longer the more has failed.
func (r *Reflector) backOff(ctx context.Context) input {
	r.OnError(ctx, r.err)
	delay := maxBackOff
	if n := r.machine.failures - 1; n < 8 {
		delay = min(minBackOff<<n, maxBackOff)
	}
	delay = delay/2 + rand.N(delay)
	if seconds, ok := apierrors.SuggestsClientDelay(r.err); ok {
		delay = max(delay, time.Duration(seconds)*time.Second)
	}
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
	return input{signal: backOffElapsed}
}

// requestPage returns the request for a page, which may have been made before.
func (r *Reflector) requestPage(ctx context.Context, next string) *pageRequest {
	if q := r.prefetched; q != nil && q.token == next {
		r.prefetched = nil
		return q
	}
	return newPageRequest(ctx, r.Source, next)
}

func (r *Reflector) cancelPrefetch() {
	if r.prefetched != nil {
		r.prefetched.cancelAndWait()
		r.prefetched = nil
	}
}

func (r *Reflector) closeWatch() {
	if r.watch != nil {
		r.watch.close()
		r.watch = nil
	}
}
