package recorder

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"strings"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/reference"

	"flyball.dev/ctrl/recorder"
)

// maxNote and maxInstance are the maximum lengths of a note and of a reporting instance, in bytes.
const maxNote, maxInstance = 1024, 128

// GetEventRecorder returns a recorder for events of the events.k8s.io API.
func (p *Provider) GetEventRecorder(name string) recorder.EventRecorder {
	instance := name
	if host, err := os.Hostname(); err == nil {
		instance += "-" + host
	}
	instance = instance[:min(len(instance), maxInstance)]
	return &eventsRecorder{provider: p, controller: name, instance: instance}
}

// eventsRecorder records events of the API group events.k8s.io.
type eventsRecorder struct {
	provider             *Provider
	controller, instance string
}

func (r *eventsRecorder) Eventf(
	regarding, related runtime.Object, eventtype, reason, action, note string, args ...any,
) {
	r.AnnotatedEventf(regarding, related, nil, eventtype, reason, action, note, args...)
}

// AnnotatedEventf records an event with annotations. Events that differ in nothing but their notes and
// annotations are a series: the first one is written, the others are counted.
func (r *eventsRecorder) AnnotatedEventf(
	regarding, related runtime.Object,
	annotations map[string]string,
	eventtype, reason, action, note string,
	args ...any,
) {
	p := r.provider
	ref, ok := p.reference(regarding, eventtype, reason)
	if !ok {
		return
	}
	event := &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{
			Name:        nameFor(ref),
			Namespace:   namespaceFor(ref),
			Annotations: maps.Clone(annotations), // the caller may change its own meanwhile
		},
		EventTime:           metav1.NowMicro(),
		ReportingController: r.controller,
		ReportingInstance:   r.instance,
		Action:              action,
		Reason:              reason,
		Regarding:           *ref,
		Note:                shorten(fmt.Sprintf(note, args...)),
		Type:                eventtype,
	}
	if related != nil {
		// An event without its related object is still useful.
		event.Related, _ = reference.GetReference(p.scheme, related)
	}
	p.send(&eventsEvent{provider: p, event: event}, ref)
}

// shorten truncates a note that servers would reject.
func shorten(note string) string {
	if len(note) <= maxNote {
		return note
	}
	const more = "…"
	return strings.ToValidUTF8(note[:maxNote-len(more)], "") + more
}

// eventsEvent is a queued event of the events.k8s.io API.
type eventsEvent struct {
	provider *Provider
	event    *eventsv1.Event
	counted  bool
}

// deliver creates the first event of a series, with retries. The count of the others is written by
// writeCount.
func (e *eventsEvent) deliver(ctx context.Context) error {
	p := e.provider
	if !e.counted {
		p.log.V(1).Info(e.event.Note, "type", e.event.Type,
			"object", e.event.Regarding, "reason", e.event.Reason, "action", e.event.Action)
		if e.counted = true; !p.series.add(e.event) {
			p.writeCount(ctx)
			return nil
		}
	}
	return p.outcome(p.create(ctx, e.event), &e.event.Regarding, e.event.Reason)
}

// writeCount writes the count of the first series that is due, and reports whether there was one. If the
// write fails it is retried later, however often, and meanwhile events are delivered.
func (p *Provider) writeCount(ctx context.Context) bool {
	event, ok := p.series.next(time.Now())
	if !ok {
		return false
	}
	err := p.outcome(p.patch(ctx, event), &event.Regarding, event.Reason)
	if err != nil {
		p.log.V(1).Info("Could not write the count of an event; retrying", "reason", event.Reason, "error", err)
	}
	p.series.written(time.Now(), err != nil)
	return true
}

// countDropped logs that the count of a series is not written.
func (p *Provider) countDropped(event *eventsv1.Event) {
	p.log.Info("Dropping the count of an event: too many counts wait to be written",
		"reason", event.Reason, "kind", event.Regarding.Kind, "namespace", event.Regarding.Namespace, "name", event.Regarding.Name)
}

// patch writes the series of an event.
func (p *Provider) patch(ctx context.Context, event *eventsv1.Event) error {
	data, err := json.Marshal(map[string]any{"series": event.Series})
	if err != nil {
		return err
	}
	_, err = p.events.patch(ctx, event, types.MergePatchType, data)
	if apierrors.IsNotFound(err) { // Events expire on the server.
		return p.create(ctx, event)
	}
	return err
}

// create creates an event, by another name if its own is taken.
func (p *Provider) create(ctx context.Context, event *eventsv1.Event) error {
	err := p.events.create(ctx, event)
	if apierrors.IsAlreadyExists(err) {
		event.Name = nameFor(&event.Regarding)
		err = p.events.create(ctx, event)
	}
	return err
}
