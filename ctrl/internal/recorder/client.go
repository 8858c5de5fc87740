package recorder

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// eventClient writes the events of one API group.
type eventClient[T any, PT interface {
	*T
	runtime.Object
	metav1.Object
}] struct{ rest rest.Interface }

// create creates an event. The response is not decoded.
func (c eventClient[T, PT]) create(ctx context.Context, event PT) error {
	return c.rest.Post().Namespace(event.GetNamespace()).Resource("events").Body(event).Do(ctx).Error()
}

func (c eventClient[T, PT]) update(ctx context.Context, event PT) (PT, error) {
	written := PT(new(T))
	err := c.rest.Put().Namespace(event.GetNamespace()).Resource("events").Name(event.GetName()).Body(event).Do(ctx).Into(written)
	return written, err
}

func (c eventClient[T, PT]) patch(ctx context.Context, event PT, how types.PatchType, data []byte) (PT, error) {
	written := PT(new(T))
	err := c.rest.Patch(how).Namespace(event.GetNamespace()).Resource("events").Name(event.GetName()).Body(data).Do(ctx).Into(written)
	return written, err
}

// eventSink implements [record.EventSink].
type eventSink struct {
	client eventClient[corev1.Event, *corev1.Event]
}

func (s eventSink) Create(event *corev1.Event) (*corev1.Event, error) {
	return event, s.client.create(context.Background(), event)
}

func (s eventSink) Update(event *corev1.Event) (*corev1.Event, error) {
	return s.client.update(context.Background(), event)
}

func (s eventSink) Patch(event *corev1.Event, data []byte) (*corev1.Event, error) {
	return s.client.patch(context.Background(), event, types.StrategicMergePatchType, data)
}
