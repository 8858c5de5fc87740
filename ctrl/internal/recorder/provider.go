// Package recorder writes events to the API server.
//
// Recorders add events to a bounded queue without blocking; one goroutine, in Run, aggregates
// repeated events and writes them. Events are dropped if the queue is full or Run has ended.
package recorder

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"

	"flyball.dev/ctrl/recorder"
	"flyball.dev/internal/restclient"
)

const (
	// queueLength is the capacity of the queue.
	queueLength = 1000
	// flushTime is how long Run continues to write after its context is done.
	flushTime = 5 * time.Second
)

// Options are the options of a Provider.
type Options struct {
	// Config is the configuration of the clients. They send protobuf unless it has a content type.
	Config     *rest.Config
	HTTPClient *http.Client
	Scheme     *runtime.Scheme // for the kinds of the objects of events
	Logger     logr.Logger

	// Broadcaster, if not nil, writes the events of the core API. Run connects it to the server; its
	// owner shuts it down.
	Broadcaster record.EventBroadcaster
}

// Provider provides event recorders.
type Provider struct {
	scheme      *runtime.Scheme
	log         logr.Logger
	broadcaster record.EventBroadcaster

	core   eventClient[corev1.Event, *corev1.Event]
	events eventClient[eventsv1.Event, *eventsv1.Event]

	mu      sync.Mutex // so that no event is queued after Run has drained the queue
	stopped bool
	queue   chan delivery

	// Only Run uses these.
	correlator *record.EventCorrelator
	series     *series
}

// delivery is a queued event. The recorder creates it, and Run calls deliver, which returns an
// error if it may be retried.
type delivery interface {
	deliver(ctx context.Context) error
}

var _ recorder.Provider = (*Provider)(nil)

// New returns a provider. Events that are recorded before Run are queued.
func New(o Options) (*Provider, error) {
	config := rest.CopyConfig(o.Config)
	if config.ContentType == "" {
		config.ContentType = runtime.ContentTypeProtobuf
	}
	core, err := restclient.For(config, o.HTTPClient, corev1.SchemeGroupVersion)
	if err != nil {
		return nil, fmt.Errorf("failed to init client: %w", err)
	}
	events, err := restclient.For(config, o.HTTPClient, eventsv1.SchemeGroupVersion)
	if err != nil {
		return nil, fmt.Errorf("failed to init client: %w", err)
	}
	p := &Provider{
		scheme:      o.Scheme,
		log:         o.Logger,
		broadcaster: o.Broadcaster,
		core:        eventClient[corev1.Event, *corev1.Event]{core},
		events:      eventClient[eventsv1.Event, *eventsv1.Event]{events},
		queue:       make(chan delivery, queueLength),
		correlator:  record.NewEventCorrelator(clock.RealClock{}),
	}
	p.series = newSeries(p.countDropped)
	return p, nil
}

// Run writes events until ctx is done, and then the queued events and the counts of series, for flushTime
// at most. It must not be called more than once.
func (p *Provider) Run(ctx context.Context) {
	if p.broadcaster != nil {
		defer p.broadcaster.StartRecordingToSink(eventSink{p.core}).Stop()
	}
	// Requests outlive ctx, by flushTime.
	writing, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() {
		limit := time.AfterFunc(flushTime, cancel)
		context.AfterFunc(writing, func() { limit.Stop() }) // when Run returns
	})()

	for ctx.Err() == nil {
		select {
		case d := <-p.queue:
			p.deliver(ctx, writing, d)
		case now := <-p.series.fires():
			p.series.sweep(now)
			p.writeCount(writing) // one of many, so that the queue does not wait for all
		case <-ctx.Done():
		}
	}
	p.mu.Lock()
	p.stopped = true
	p.mu.Unlock()
	for writing.Err() == nil && len(p.queue) > 0 {
		p.deliver(ctx, writing, <-p.queue)
	}
	p.series.sweepAll()
	for left := len(p.series.due); left > 0 && writing.Err() == nil; left-- {
		p.series.retry = time.Time{} // each count is tried once, at once
		p.writeCount(writing)
	}
}

// deliver writes an event, with a few retries, or with none if ctx is done.
func (p *Provider) deliver(ctx, writing context.Context, d delivery) {
	var err error
	for wait := time.Second; wait <= 16*time.Second; wait *= 2 {
		if err = d.deliver(writing); err == nil {
			return
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			p.log.Error(err, "Dropping an event: the recorder is stopping")
			return
		}
	}
	p.log.Error(err, "Dropping an event: retries exhausted")
}

// send queues an event.
func (p *Provider) send(d delivery, about *corev1.ObjectReference) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped {
		p.log.V(1).Info("Dropping an event: the recorder has stopped",
			"kind", about.Kind, "namespace", about.Namespace, "name", about.Name)
		return
	}
	select {
	case p.queue <- d:
	default:
		p.log.Info("Dropping an event: the queue is full",
			"kind", about.Kind, "namespace", about.Namespace, "name", about.Name)
	}
}
