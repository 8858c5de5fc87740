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

// encoding decodes a resource from one media type. It does not change, and may
// be used by several goroutines.
type encoding struct {
	resource Resource
	info     runtime.SerializerInfo
	// objects decodes any object, and says what is wrong with one.
	objects runtime.Decoder
	format

	// apiVersion of Kind and ListKind.
	apiVersion, listAPIVersion string
}

// format is how events and lists are written. What a format cannot make sense
// of may still be right: it is only unusual.
type format interface {
	// newSplitter returns what cuts a stream into frames.
	newSplitter() splitter
	// splitEvent returns the type of an event and the object it has, still encoded.
	splitEvent(frame []byte) (kind, object []byte, ok bool)
	// decode decodes an object of a kind. It fills obj and tells whether it was
	// of that kind.
	decode(data []byte, apiVersion, kind string, obj client.Object) bool
	// splitList returns the items of a list, still encoded.
	splitList(data []byte) (encodedList, bool)
	// decodeItem decodes an item of a list into an empty object.
	decodeItem(data []byte, obj client.Object) error
}

// encodedList is a list whose items are still encoded.
type encodedList struct {
	apiVersion, kind string
	metadata         metav1.ListMeta
	items            [][]byte
}

// encodings returns how a resource can be decoded, in the order of preference of
// the serializer.
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

// decodeAnyEvent decodes whatever a frame may be, such as an error.
func (e *encoding) decodeAnyEvent(frame []byte) (watch.Event, error) {
	var event metav1.WatchEvent
	out, _, err := e.info.StreamSerializer.Decode(frame, nil, &event)
	if err != nil {
		return watch.Event{}, err
	}
	if out != &event {
		return watch.Event{}, fmt.Errorf("a %T instead of an event", out)
	}
	t, known := eventType([]byte(event.Type))
	if !known {
		return watch.Event{}, fmt.Errorf("an event of the unknown type %q", event.Type)
	}
	obj, err := runtime.Decode(e.objects, event.Object.Raw)
	return watch.Event{Type: t, Object: obj}, err
}

func eventType(name []byte) (watch.EventType, bool) {
	for _, t := range [...]watch.EventType{watch.Modified, watch.Added, watch.Deleted, watch.Bookmark, watch.Error} {
		if string(name) == string(t) {
			return t, true
		}
	}
	return "", false
}

// decodingError is the event that stands for something that cannot be decoded.
func decodingError(err error) watch.Event {
	err = fmt.Errorf("unable to decode an event from the watch stream: %w", err)
	return watch.Event{
		Type:   watch.Error,
		Object: apierrors.NewClientErrorReporter(http.StatusInternalServerError, http.MethodGet, "ClientWatchDecoding").AsObject(err),
	}
}
