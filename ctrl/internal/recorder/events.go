package recorder

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/reference"
	"k8s.io/utils/lru"

	"flyball.dev/ctrl/recorder"
)

// maxNote is the maximum length of a note, in bytes.
const maxNote = 1024

// GetEventRecorder returns a recorder for events of the events.k8s.io API.
func (p *Provider) GetEventRecorder(name string) recorder.EventRecorder {
	instance := name
	if host, err := os.Hostname(); err == nil {
		instance += "-" + host
	}
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

// AnnotatedEventf records an event with annotations. Repetitions of an event are counted in a
// series.
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
			Name:        p.names.name(ref),
			Namespace:   namespaceFor(ref),
			Annotations: annotations,
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
		e.event.Name = e.provider.names.name(&e.event.Regarding)
		_, err = events.Create(ctx, e.event, metav1.CreateOptions{})
	}
	return err
}

const (
	// seriesEnd is how long after its last event a series ends.
	seriesEnd = 6 * time.Minute
	// objectBurst and objectPause are the rate limit of the events of one controller and object.
	objectBurst = 25
	objectPause = 5 * time.Minute
	// rememberEvents is the size of the LRU caches of events and objects.
	rememberEvents = 4096
)

// series aggregates repeated events, and limits the rate of the events of a controller and object.
// It is not safe for concurrent use.
type series struct {
	running *lru.Cache // seriesKey → *eventsv1.Event, as it was written last
	objects *lru.Cache // objectKey → *rate.Limiter
}

func newSeries() *series {
	return &series{running: lru.New(rememberEvents), objects: lru.New(rememberEvents)}
}

// objectKey is what the rate limit of events is for: the events of one recorder about one object.
type objectKey struct {
	controller, instance string
	regarding            corev1.ObjectReference
}

// seriesKey identifies the repetitions of one event.
type seriesKey struct {
	objectKey
	related                      corev1.ObjectReference
	typ, reason, action, message string
}

// add returns the event to write, and how to write it. Repeated events are counted even if the rate
// limit drops them.
func (s *series) add(event *eventsv1.Event) (*eventsv1.Event, step) {
	object := objectKey{event.ReportingController, event.ReportingInstance, event.Regarding}
	key := seriesKey{objectKey: object, typ: event.Type, reason: event.Reason, action: event.Action, message: event.Note}
	if event.Related != nil {
		key.related = *event.Related
	}
	do := create
	if known, ok := s.running.Get(key); ok {
		if first := known.(*eventsv1.Event); event.EventTime.Sub(lastSeen(first)) < seriesEnd {
			if first.Series == nil {
				first.Series = &eventsv1.EventSeries{Count: 1}
			}
			first.Series.Count++
			first.Series.LastObservedTime = event.EventTime
			event, do = first, patch
		}
	}
	s.running.Add(key, event)

	limit, ok := s.objects.Get(object)
	if !ok {
		limit = rate.NewLimiter(rate.Every(objectPause), objectBurst)
		s.objects.Add(object, limit)
	}
	if !limit.(*rate.Limiter).Allow() {
		do = skip
	}
	return event, do
}

func lastSeen(event *eventsv1.Event) time.Time {
	if event.Series != nil {
		return event.Series.LastObservedTime.Time
	}
	return event.EventTime.Time
}
