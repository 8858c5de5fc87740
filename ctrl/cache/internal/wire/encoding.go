package wire

import (
	"fmt"
	"mime"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"flyball.dev/ctrl/client"
)

// encoding decodes a resource from one media type. It is immutable and safe for concurrent use.
type encoding struct {
	resource Resource
	info     runtime.SerializerInfo
	// objects is client-go's decoder of any object, for objects that the format does not handle.
	objects runtime.Decoder
	format

	// apiVersion of Kind and ListKind.
	apiVersion, listAPIVersion string
}

// format parses events and lists of one media type in the layout in which servers usually write
// them. Input that a format rejects may still be valid; it is left to client-go's decoders.
type format interface {
	// newSplitter returns a splitter of a stream into frames.
	newSplitter() splitter
	// splitEvent returns the type of an event and its encoded object.
	splitEvent(frame []byte) (kind, object []byte, ok bool)
	// decode decodes an object into obj and reports whether it is of that kind.
	decode(data []byte, apiVersion, kind string, obj client.Object) bool
	// splitList returns a list with its encoded items.
	splitList(data []byte) (encodedList, bool)
	// decodeItem decodes an item of a list into an empty object.
	decodeItem(data []byte, obj client.Object) error
}

// encodedList is a list with items that are not decoded yet.
type encodedList struct {
	apiVersion, kind string
	metadata         metav1.ListMeta
	items            [][]byte
}

// encodings returns the encodings of a resource, in the serializer's order of preference.
func encodings(r Resource, serializer runtime.NegotiatedSerializer) (all []*encoding) {
	for _, info := range serializer.SupportedMediaTypes() {
		e := &encoding{
			resource: r, info: info, objects: serializer.DecoderToVersion(info.Serializer, nil),
			apiVersion: r.Kind.GroupVersion().String(), listAPIVersion: r.ListKind.GroupVersion().String(),
		}
		switch info.MediaType {
		case runtime.ContentTypeProtobuf:
			e.format = protobufFormat{conventionalList(r)}
		case runtime.ContentTypeJSON:
			e.format = jsonFormat{}
		default:
			continue
		}
		all = append(all, e)
	}
	return all
}

// matches reports whether a content type is this encoding's.
func (e *encoding) matches(contentType string) bool {
	media, _, err := mime.ParseMediaType(contentType)
	return err == nil && media == e.info.MediaType
}

// decodeEvent decodes a frame of a watch.
func (e *encoding) decodeEvent(frame []byte) (watch.Event, error) {
	if kind, object, ok := e.splitEvent(frame); ok {
		obj := e.resource.New()
		if t, known := eventType(kind); known && e.decode(object, e.apiVersion, e.resource.Kind.Kind, obj) {
			return watch.Event{Type: t, Object: obj}, nil
		}
	}
	return e.decodeAnyEvent(frame)
}

// decodeAnyEvent decodes a frame with client-go's decoders, such as an error event.
func (e *encoding) decodeAnyEvent(frame []byte) (watch.Event, error) {
	var event metav1.WatchEvent
	out, _, err := e.info.StreamSerializer.Decode(frame, nil, &event)
	if err != nil {
		return watch.Event{}, err
	}
	if out != &event {
		return watch.Event{}, fmt.Errorf("unexpected type %T, want a watch event", out)
	}
	t, known := eventType([]byte(event.Type))
	if !known {
		return watch.Event{}, fmt.Errorf("got invalid watch event type: %v", event.Type)
	}
	obj, err := runtime.Decode(e.objects, event.Object.Raw)
	return watch.Event{Type: t, Object: obj}, err
}

// eventType returns the event type of a name, and false if there is none.
func eventType(name []byte) (watch.EventType, bool) {
	for _, t := range [...]watch.EventType{watch.Modified, watch.Added, watch.Deleted, watch.Bookmark, watch.Error} {
		if string(name) == string(t) {
			return t, true
		}
	}
	return "", false
}

// decodingError returns the error event that reports a frame that cannot be decoded.
func decodingError(err error) watch.Event {
	err = fmt.Errorf("unable to decode an event from the watch stream: %w", err)
	return watch.Event{
		Type: watch.Error,
		Object: apierrors.NewClientErrorReporter(
			http.StatusInternalServerError, http.MethodGet, "ClientWatchDecoding").AsObject(err),
	}
}
