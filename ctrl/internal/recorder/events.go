package recorder

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"strings"

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
	step     step
}

// step is how an event is written.
type step int

const (
	undecided step = iota
	create
	patch
	skip
)

func (e *eventsEvent) deliver(ctx context.Context) error {
	p := e.provider
	if e.step == undecided {
		p.log.V(1).Info(e.event.Note, "type", e.event.Type,
			"object", e.event.Regarding, "reason", e.event.Reason, "action", e.event.Action)
		e.event, e.step = p.series.add(e.event)
	}
	if e.step == skip {
		return nil
	}
	return p.outcome(e.write(ctx), &e.event.Regarding, e.event.Reason)
}

func (e *eventsEvent) write(ctx context.Context) error {
	events := e.provider.events.Events(e.event.Namespace)
	if e.step == patch {
		data, err := json.Marshal(map[string]any{"series": e.event.Series})
		if err != nil {
			return err
		}
		_, err = events.Patch(ctx, e.event.Name, types.MergePatchType, data, metav1.PatchOptions{})
		if !apierrors.IsNotFound(err) {
			return err
		}
		// Events expire on the server.
	}
	_, err := events.Create(ctx, e.event, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		e.event.Name = nameFor(&e.event.Regarding)
		_, err = events.Create(ctx, e.event, metav1.CreateOptions{})
	}
	return err
}
