package wire

import (
	"bytes"
	"encoding/binary"
	"reflect"
	"strings"

	"flyball.dev/ctrl/client"
)

// protobufFormat is Kubernetes' protobuf encoding. Frames are preceded by their length, events are
// bare messages, objects and lists are in an envelope (runtime.Unknown) with a magic prefix.
type protobufFormat struct {
	// conventionalList is set if the list type has the usual fields.
	conventionalList bool
}

// Field numbers of the messages.
const (
	eventKind, eventObject              = 1, 2 // of metav1.WatchEvent
	extensionRaw                        = 1    // of runtime.RawExtension
	envelopeType, envelopeRaw           = 1, 2 // of runtime.Unknown
	envelopeEncoding, envelopeMediaType = 3, 4
	typeAPIVersion, typeKind            = 1, 2 // of runtime.TypeMeta
	listMetadata, listItems             = 1, 2 // of any list
)

var protobufPrefix = []byte("k8s\x00")

// conventionalList reports whether the list type of a resource has its metadata and items in fields
// 1 and 2, and its items implement protobuf.
func conventionalList(r Resource) bool {
	list, err := r.NewList()
	if _, ok := r.New().(unmarshaler); !ok || err != nil {
		return false
	}
	t := reflect.TypeOf(list).Elem()
	field := func(name, tag string) bool {
		f, ok := t.FieldByName(name)
		return ok && strings.HasPrefix(f.Tag.Get("protobuf"), tag)
	}
	return field("ListMeta", "bytes,1,opt,") && field("Items", "bytes,2,rep,")
}

func (protobufFormat) newSplitter() splitter { return lengthSplitter{} }

func (protobufFormat) splitEvent(frame []byte) (kind, object []byte, ok bool) {
	for len(frame) > 0 {
		f, rest, ok := nextField(frame)
		if !ok {
			return nil, nil, false
		}
		switch f.number {
		case eventKind:
			kind = f.value
		case eventObject:
			raw, rest, ok := nextField(f.value)
			if !ok || raw.number != extensionRaw || len(rest) > 0 {
				return nil, nil, false
			}
			object = raw.value
		default:
			return nil, nil, false
		}
		frame = rest
	}
	return kind, object, true
}

func (protobufFormat) decode(data []byte, apiVersion, kind string, obj client.Object) bool {
	e, ok := parseEnvelope(data)
	m, known := obj.(unmarshaler)
	return ok && known && string(e.apiVersion) == apiVersion && string(e.kind) == kind && m.Unmarshal(e.raw) == nil
}

func (p protobufFormat) splitList(data []byte) (l encodedList, ok bool) {
	e, ok := parseEnvelope(data)
	if !ok || !p.conventionalList {
		return encodedList{}, false
	}
	l.apiVersion, l.kind = string(e.apiVersion), string(e.kind)
	for msg := e.raw; len(msg) > 0; {
		f, rest, ok := nextField(msg)
		switch {
		case ok && f.number == listMetadata && l.metadata.Unmarshal(f.value) == nil:
		case ok && f.number == listItems:
			l.items = append(l.items, f.value)
		default:
			return encodedList{}, false
		}
		msg = rest
	}
	return l, true
}

func (protobufFormat) decodeItem(data []byte, obj client.Object) error {
	return obj.(unmarshaler).Unmarshal(data)
}

// unmarshaler is implemented by the types that have a protobuf encoding.
type unmarshaler interface {
	Unmarshal([]byte) error
}

// envelope is a runtime.Unknown: an encoded object and its kind.
type envelope struct {
	apiVersion, kind, raw []byte
}

// parseEnvelope parses the envelope of an object.
func parseEnvelope(data []byte) (e envelope, ok bool) {
	msg, ok := bytes.CutPrefix(data, protobufPrefix)
	if !ok {
		return e, false
	}
	for len(msg) > 0 {
		f, rest, ok := nextField(msg)
		if !ok {
			return e, false
		}
		switch f.number {
		case envelopeType:
			if !e.parseType(f.value) {
				return e, false
			}
		case envelopeRaw:
			e.raw = f.value
		case envelopeEncoding, envelopeMediaType:
		default:
			return e, false
		}
		msg = rest
	}
	return e, true
}

// parseType parses the TypeMeta of an envelope.
func (e *envelope) parseType(msg []byte) bool {
	for len(msg) > 0 {
		f, rest, ok := nextField(msg)
		switch {
		case ok && f.number == typeAPIVersion:
			e.apiVersion = f.value
		case ok && f.number == typeKind:
			e.kind = f.value
		default:
			return false
		}
		msg = rest
	}
	return true
}

// field is a length-delimited field of a message: a string, bytes or an embedded message.
type field struct {
	number uint64
	value  []byte
}

// nextField cuts the first field off a message. It fails for fields of other wire types.
func nextField(msg []byte) (f field, rest []byte, ok bool) {
	const lengthDelimited = 2
	tag, n := binary.Uvarint(msg)
	if n <= 0 || tag&7 != lengthDelimited {
		return field{}, nil, false
	}
	msg = msg[n:]
	length, n := binary.Uvarint(msg)
	if n <= 0 || length > uint64(len(msg)-n) {
		return field{}, nil, false
	}
	end := n + int(length)
	return field{tag >> 3, msg[n:end]}, msg[end:], true
}

// lengthSplitter cuts a stream into frames that are preceded by their length in four bytes.
type lengthSplitter struct{}

func (lengthSplitter) next(data []byte) (from, to int, err error) {
	const header = 4
	if len(data) < header {
		return 0, 0, nil
	}
	n := binary.BigEndian.Uint32(data)
	switch {
	case n > maxFrame:
		return 0, 0, errTooLarge
	case uint64(len(data)) < header+uint64(n):
		return 0, 0, nil
	default:
		return header, header + int(n), nil
	}
}
