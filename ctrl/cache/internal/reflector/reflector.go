// Package reflector lists and watches the objects of one kind and passes them to a sink. It lists
// again when the server can no longer continue a watch.
//
// A pure state machine decides which action comes next. The reflector performs the actions one at a
// time, on the goroutine that runs it. The exception is the next page of a list, which is
// prefetched while the objects of the last one are passed on.
//
// # Expired versions
//
// A server that no longer has the history of a watch or the token of a page answers with the status 410 (Expired or
// Gone). [classify] makes the signal expired of it, and [machine.step] decides. A watch is followed by a new list, a
// second after the last list at the earliest; the delay grows while no watch delivers an event after its list. A list
// in pages is followed by a list in one page. A status with the cause ServerReset, which the API server of this module
// sends after a reset, is the signal reset, and the next list follows within milliseconds. Complete tells the sink
// which objects no longer exist, so its handlers get the differences.
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

// Source lists and watches the objects of one kind, in one namespace or in all.
type Source interface {
	// List returns a page of a list. It may be called for the next page while the objects of this one
	// are still being decoded.
	List(ctx context.Context, opts metav1.ListOptions) (*wire.Page, error)
	// Watch opens a watch. It ends with ctx.
	Watch(ctx context.Context, opts metav1.ListOptions) (Stream, error)
}

// Stream is an open watch.
type Stream interface {
	// Next waits for and returns the next events, at least one. It returns io.EOF when the watch has
	// ended, and another error when it failed. The caller owns the objects, and the slice until the
	// next call.
	Next() ([]apiwatch.Event, error)
	// Close ends the watch and waits for its goroutines.
	Close()
}

// Sink receives the objects of a reflector, in order and on one goroutine. It owns the objects that
// are passed to it.
type Sink interface {
	// Begin is called when a list begins. If the list fails, Begin is called for the next attempt.
	Begin()
	// Listed is called with each object of the list.
	Listed(client.Object)
	// Complete is called at the end of the list: objects that were not listed do not exist any more.
	Complete(version string)
	// Changed is called with an object that was added or modified.
	Changed(client.Object)
	// Deleted is called with an object that was deleted or no longer matches the selectors.
	Deleted(client.Object)
	// Progress is called when all changes up to a resource version were passed on.
	Progress(version string)
}

// Reflector passes the objects of a source to a sink. Run may be called once.
type Reflector struct {
	Source Source
	Sink   Sink

	// Bookmarks requests bookmarks from the server. Without them watch lists are not used.
	Bookmarks bool

	// InProcess says that there is no connection that could be dead without an error, so that a watch
	// may stay open much longer.
	InProcess bool

	// OnError is called with every error before the reflector backs off.
	OnError func(context.Context, error)

	machine    machine
	watch      *openWatch
	prefetched *pageRequest
	// completed is when the last list was complete.
	completed time.Time
	// err is the error behind the last signal, for OnError and for the delay that the server suggests.
	err error
}

const (
	// PageSize is the maximum number of objects in a page of a list.
	PageSize = 500
	// minWatchTimeout and maxWatchTimeout bound the timeout that is requested for a watch. It is
	// random, so that watches do not end together.
	minWatchTimeout, maxWatchTimeout = 5 * time.Minute, 10 * time.Minute
	// inProcessWatchTimeout is requested instead of a server in this process.
	inProcessWatchTimeout = 24 * time.Hour
	// watchGrace is how long after its timeout a watch may end before the connection is considered
	// dead.
	watchGrace = 30 * time.Second
	// StableAfter is how long a watch must have been open to count as healthy, so that its end is not
	// a failure. A server that closes every watch at once never gets there.
	StableAfter = 5 * time.Second
	// initialEventsTimeout is how long a watch list may deliver nothing before the server is assumed
	// not to support it: such a server never sends the bookmark that ends the initial events.
	initialEventsTimeout = 15 * time.Second
	// minBackOff is the delay after the first failure. It doubles with each, up to maxBackOff.
	minBackOff, maxBackOff = 200 * time.Millisecond, 30 * time.Second
	// minRelistInterval is the minimum time between the end of a list and the next one, if the watch
	// between them has expired, and minResetInterval if that is because the server was reset.
	minRelistInterval, minResetInterval = time.Second, 10 * time.Millisecond
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

// transitioned closes the watch and the prefetched page if the new state does not need them, and
// completes the list if it has ended.
func (r *Reflector) transitioned(before state) {
	after := r.machine.state
	if after != watching && after != streaming {
		r.closeWatch()
	}
	if after != listing {
		r.cancelPrefetch()
	}
	if (after == synced || after == watching) && (before == empty || before == listing || before == streaming) {
		r.completed = time.Now()
		r.Sink.Complete(r.machine.version)
	}
}

// perform performs an action and returns its outcome.
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

// list requests a page of a list and passes its objects on. Meanwhile it prefetches the next page.
func (r *Reflector) list(ctx context.Context) input {
	page, err := r.requestPage(ctx, r.machine.listOptions()).wait()
	if err != nil {
		return r.failure(err)
	}
	if r.machine.state == empty {
		r.Sink.Begin()
	}
	if page.Next != "" {
		r.prefetched = newPageRequest(ctx, r.Source, metav1.ListOptions{Limit: PageSize, Continue: page.Next})
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
	if r.InProcess {
		timeout = inProcessWatchTimeout
	}
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

// read reads an event from the open watch and passes it on.
func (r *Reflector) read() input {
	event, err := r.watch.next(r.machine.state == streaming)
	var in input
	switch {
	case err == nil:
		in = r.deliver(event)
	case errors.Is(err, io.EOF):
		r.err = ErrWatchEnded
		in = input{signal: ended}
	case errors.Is(err, ErrInitialEventsTimeout):
		r.err = err
		in = input{signal: unsupported}
	default:
		in = r.failure(err)
	}
	in.stable = r.watch.age >= StableAfter
	return in
}

// deliver passes an event on to the sink.
func (r *Reflector) deliver(event apiwatch.Event) input {
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

// failure returns the signal of an error.
func (r *Reflector) failure(err error) input {
	r.err = err
	return input{signal: classify(err, r.machine)}
}

// backOff waits before the next attempt. After a failure it reports the error, and the delay grows
// exponentially, with jitter.
func (r *Reflector) backOff(ctx context.Context) input {
	delay := time.Until(r.completed.Add(r.machine.interval))
	if r.machine.interval == 0 {
		r.OnError(ctx, r.err)
		delay = backOffDelay(r.machine.consecutive())
		delay = delay/2 + rand.N(delay)
		if seconds, ok := apierrors.SuggestsClientDelay(r.err); ok {
			delay = max(delay, time.Duration(seconds)*time.Second)
		}
	}
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
	return input{signal: backOffElapsed}
}

// backOffDelay returns the delay after a number of consecutive failures, without the jitter.
func backOffDelay(failures int) time.Duration {
	return min(minBackOff<<min(failures-1, 8), maxBackOff)
}

// requestPage returns the prefetched request for a page, or else a new one.
func (r *Reflector) requestPage(ctx context.Context, opts metav1.ListOptions) *pageRequest {
	if q := r.prefetched; q != nil && q.token == opts.Continue {
		r.prefetched = nil
		return q
	}
	return newPageRequest(ctx, r.Source, opts)
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
