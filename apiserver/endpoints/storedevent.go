package endpoints

import (
	"bytes"
	"encoding/binary"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"flyball.dev/apiserver/resource"
	"flyball.dev/internal/protobuf"
)

// appendEvent appends the framed event ADDED of a stored object. It returns false, and appends nothing, if the object must be
// decoded.
type appendEvent func(to []byte, o resource.StoredObject) ([]byte, bool)

// storedEvents returns how a format encodes the initial events of a watch from the stored objects, or nil if the objects must be decoded.
//
//upstream:none kube-apiserver has decoded objects, and encodes each event.
func (h *watches) storedEvents(f *watchFormat) appendEvent {
	store := registryOf(h.storage)
	if store == nil || h.decoded != "" {
		return nil
	}
	if f.contentType == runtime.ContentTypeJSON {
		if j, ok := jsonEventsOf(f, store.New()); ok {
			return j.append
		}
		return nil
	}
	if p, ok := protobufEventsOf(f, store.New()); ok {
		return p.append
	}
	return nil
}

// jsonEvents encodes events as JSON.
type jsonEvents struct {
	before, after []byte // the object in an event
	kind          []byte // how an object begins, with its kind; empty if stored objects have their kind
}

// jsonEventsOf returns the encoding that a format has for an empty object. It returns false if that is not known.
//
//upstream:none kube-apiserver has decoded objects, and encodes each event.
func jsonEventsOf(f *watchFormat, empty runtime.Object) (j jsonEvents, ok bool) {
	object, err := runtime.Encode(f.objects, empty.DeepCopyObject())
	if err != nil {
		return j, false
	}
	var event bytes.Buffer
	if err := f.encode(watch.Added, empty, &event); err != nil {
		return j, false
	}
	object = bytes.TrimSpace(object)
	if j.before, j.after, ok = bytes.Cut(event.Bytes(), object); !ok {
		return j, false
	}
	if _, unstructured := empty.(runtime.Unstructured); !unstructured {
		j.kind, _, ok = bytes.Cut(object, []byte(`,"metadata":`))
	}
	return j, ok
}

// append is an [appendEvent].
func (j jsonEvents) append(to []byte, o resource.StoredObject) ([]byte, bool) {
	start := len(to)
	to = append(append(to, j.before...), j.kind...)
	object := len(to)
	to, ok := o.AppendJSON(to)
	if !ok {
		return to[:start], false
	}
	if len(j.kind) > 0 {
		to[object] = ',' // instead of the brace before the metadata
	}
	return append(to, j.after...), true
}

// protobufEvents encodes events as protobuf. An event is a message with its type and the object as a runtime.RawExtension, which has the
// object in its envelope. The length of the event precedes it.
type protobufEvents struct {
	before, after []byte // the object in its envelope
}

// protobufEventsOf returns the encoding that a format has for an empty object. It returns false if that is not known.
//
//upstream:none kube-apiserver has decoded objects, and encodes each event.
func protobufEventsOf(f *watchFormat, empty runtime.Object) (p protobufEvents, ok bool) {
	encoded, err := runtime.Encode(f.objects, empty)
	if err != nil {
		return p, false
	}
	message, ok := bytes.CutPrefix(encoded, protobufPrefix)
	if !ok {
		return p, false
	}
	kind, rest, ok := protobuf.Next(message)
	if !ok || kind.Tag != tagKind {
		return p, false
	}
	object, after, ok := protobuf.Next(rest)
	return protobufEvents{encoded[:len(encoded)-len(rest)], after}, ok && object.Tag == tagRaw
}

// The tags of an event.
const (
	tagRaw      = 2<<3 | 2 // the object in its envelope
	tagEnvelope = 1<<3 | 2 // in a runtime.RawExtension
	tagType     = 1<<3 | 2 // of the event
	tagObject   = 2<<3 | 2 // of the event
)

// append is an [appendEvent].
//
//upstream:none kube-apiserver has decoded objects, and encodes each event.
func (p protobufEvents) append(to []byte, o resource.StoredObject) ([]byte, bool) {
	size, ok := o.ProtobufSize()
	if !ok {
		return to, false
	}
	start := len(to)
	envelope := len(p.before) + fieldSize(size) + len(p.after)
	extension := fieldSize(envelope)
	to = binary.BigEndian.AppendUint32(to, uint32(fieldSize(len(watch.Added))+fieldSize(extension)))
	to = append(appendFieldStart(to, tagType, len(watch.Added)), watch.Added...)
	to = appendFieldStart(to, tagObject, extension)
	to = appendFieldStart(to, tagEnvelope, envelope)
	to = append(to, p.before...)
	to = appendFieldStart(to, tagRaw, size)
	if to, ok = o.AppendProtobuf(to); !ok {
		return to[:start], false
	}
	return append(to, p.after...), true
}
