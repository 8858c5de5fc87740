package recorder

import (
	"context"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
)

// GetEventRecorderFor returns a recorder for events of the core API.
func (p *Provider) GetEventRecorderFor(name string) record.EventRecorder {
	source := corev1.EventSource{Component: name}
	if p.broadcaster != nil {
		return p.broadcaster.NewRecorder(p.scheme, source)
	}
	return &coreRecorder{provider: p, source: source}
}

// coreRecorder records events of the core API group.
type coreRecorder struct {
	provider *Provider
	source   corev1.EventSource
}

func (r *coreRecorder) Event(object runtime.Object, eventtype, reason, message string) {
	r.record(object, nil, eventtype, reason, message)
}

func (r *coreRecorder) Eventf(object runtime.Object, eventtype, reason, messageFmt string, args ...any) {
	r.record(object, nil, eventtype, reason, fmt.Sprintf(messageFmt, args...))
}

func (r *coreRecorder) AnnotatedEventf(
	object runtime.Object,
	annotations map[string]string,
	eventtype, reason, messageFmt string,
	args ...any,
) {
	r.record(object, annotations, eventtype, reason, fmt.Sprintf(messageFmt, args...))
}

func (r *coreRecorder) record(object runtime.Object, annotations map[string]string, eventtype, reason, message string) {
	p := r.provider
	ref, ok := p.reference(object, eventtype, reason)
	if !ok {
		return
	}
	now := metav1.Now()
	p.send(&coreEvent{provider: p, event: &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{
			Name:        nameFor(ref),
			Namespace:   namespaceFor(ref),
			Annotations: maps.Clone(annotations), // the caller may change its own meanwhile
		},
		InvolvedObject:      *ref,
		Type:                eventtype,
		Reason:              reason,
		Message:             message,
		FirstTimestamp:      now,
		LastTimestamp:       now,
		Count:               1,
		Source:              r.source,
		ReportingController: r.source.Component,
		ReportingInstance:   r.source.Host,
	}}, ref)
}

// coreEvent is a queued event of the core API.
type coreEvent struct {
	provider *Provider
	event    *corev1.Event
	merged   *record.EventCorrelateResult // nil before correlation
}

func (e *coreEvent) deliver(ctx context.Context) error {
	p := e.provider
	if e.merged == nil {
		p.log.V(1).Info(e.event.Message, "type", e.event.Type, "object", e.event.InvolvedObject, "reason", e.event.Reason)
		var err error
		if e.merged, err = p.correlator.EventCorrelate(e.event); err != nil {
			p.log.Error(err, "Dropping an event", "reason", e.event.Reason)
			return nil
		}
	}
	if e.merged.Skip {
		return nil
	}
	written, err := e.write(ctx)
	if err == nil {
		p.correlator.UpdateState(written)
	}
	return p.outcome(err, &e.event.InvolvedObject, e.event.Reason)
}

// write patches the event that this one repeats, or creates it. It returns the event as the correlator has to know it: the resource
// version of a new event is not needed for a patch.
func (e *coreEvent) write(ctx context.Context) (*corev1.Event, error) {
	event := e.merged.Event
	events := e.provider.core
	if event.Count > 1 {
		written, err := events.patch(ctx, event, types.StrategicMergePatchType, e.merged.Patch)
		if !apierrors.IsNotFound(err) {
			return written, err
		}
		// Events expire on the server.
	}
	event.ResourceVersion = ""
	err := events.create(ctx, event)
	if apierrors.IsAlreadyExists(err) {
		event.Name = nameFor(&event.InvolvedObject)
		err = events.create(ctx, event)
	}
	return event, err
}
