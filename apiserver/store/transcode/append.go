package transcode

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"slices"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Wire types, and the tags of an entry of a map and of a message with one field.
const (
	varint    = 0
	delimited = 2

	tagKey   = 1<<3 | delimited
	tagValue = 2<<3 | delimited
	tagOnly  = 1<<3 | delimited
)

var null = []byte("null")

// append appends the fields of an encoded message. It is called after a brace, or after fields of an outer message.
func (m *message) append(to, encoded []byte, s *Space) ([]byte, error) {
	base := len(s.spans)
	defer func() { s.spans = s.spans[:base] }()
	s.spans = append(s.spans, make([]span, len(m.fields))...)
	if err := m.find(encoded, s.spans[base:]); err != nil {
		return nil, err
	}
	var err error
	for i := range m.fields {
		f := &m.fields[i]
		if f.typeMeta {
			continue
		}
		at := s.spans[base+i]
		if to, err = f.append(to, encoded[at.from:at.to], s); err != nil {
			return nil, err
		}
	}
	return to, nil
}

// find sets the spans of the fields of an encoded message.
func (m *message) find(encoded []byte, spans []span) error {
	last := 0
	for at := 0; at < len(encoded); {
		tag, n := uvarint(encoded[at:])
		number := int(tag >> 3)
		if n <= 0 || number < last || number >= len(m.byNumber) || m.byNumber[number] < 0 {
			return errNotCanonical
		}
		i := m.byNumber[number]
		if f := &m.fields[i]; number == last && f.shape != list && f.shape != mapped {
			return errNotCanonical
		}
		_, end := content(encoded, at+n, tag)
		if end < 0 {
			return errNotCanonical
		}
		if number != last {
			spans[i].from = at
		}
		spans[i].to = end
		last, at = number, end
	}
	return nil
}

// content returns the start and the end of a field's content, which follows its tag at an index of a message. The end is
// negative if the message is invalid.
func content(encoded []byte, at int, tag uint64) (from, to int) {
	value, n := uvarint(encoded[at:])
	if n <= 0 {
		return 0, -1
	}
	switch tag & 7 {
	case varint:
		return at, at + n
	case delimited:
		if value <= uint64(len(encoded)-at-n) {
			return at + n, at + n + int(value)
		}
	}
	return 0, -1
}

// uvarint is binary.Uvarint, with a short cut.
func uvarint(b []byte) (uint64, int) {
	if len(b) > 0 && b[0] < 0x80 {
		return uint64(b[0]), 1
	}
	return binary.Uvarint(b)
}

// next returns the content of the first field of a message, the tag and the rest. The message has a valid encoding of a
// field if it comes from a span.
func next(encoded []byte) (tag uint64, value, rest []byte, err error) {
	tag, n := uvarint(encoded)
	if n <= 0 {
		return 0, nil, nil, errNotCanonical
	}
	from, to := content(encoded, n, tag)
	if to < 0 {
		return 0, nil, nil, errNotCanonical
	}
	return tag, encoded[from:to], encoded[to:], nil
}

// append appends a field with its name, unless it is omitted. encoded has the tags, and is empty if the message does not have
// the field.
func (f *field) append(to, encoded []byte, s *Space) ([]byte, error) {
	var first []byte
	if len(encoded) > 0 {
		tag, value, _, err := next(encoded)
		if err != nil {
			return nil, err
		}
		if wire := tag & 7; (wire == varint) != (f.shape != mapped && f.isVarint()) {
			return nil, errNotCanonical
		}
		first = value
	}
	if f.inline {
		return f.message.append(to, first, s)
	}
	if f.omitted(encoded, first) {
		return to, nil
	}
	if to[len(to)-1] != '{' {
		to = append(to, ',')
	}
	to = append(to, f.key...)
	switch {
	case f.shape == single && f.kind == kindBytes && len(encoded) == 0:
		return append(to, null...), nil
	case f.shape == single:
		return f.value.append(to, first, len(encoded) > 0, s)
	case len(encoded) == 0:
		return append(to, null...), nil
	case f.shape == pointer:
		return f.value.append(to, first, true, s)
	case f.shape == list:
		return f.appendList(to, encoded, s)
	}
	return f.appendMap(to, encoded, s)
}

// omitted reports whether the tags of JSON omit a field.
func (f *field) omitted(encoded, first []byte) bool {
	if f.omitZero && (len(first) == 0 || isZeroTime(first)) {
		return true
	}
	if !f.omitEmpty {
		return false
	}
	if f.shape != single {
		return len(encoded) == 0
	}
	switch f.kind {
	case kindString, kindBytes:
		return len(first) == 0
	case kindBool, kindInt:
		n, _ := uvarint(first)
		return f.value.integer(n) == 0
	}
	return false
}

// integer returns an integer of the type from its encoding.
func (t value) integer(n uint64) int64 {
	if t.bits == 32 {
		return int64(int32(n))
	}
	return int64(n)
}

// appendList appends a list. Each item has the tag of the field.
func (f *field) appendList(to, encoded []byte, s *Space) ([]byte, error) {
	to = append(to, '[')
	for i := 0; len(encoded) > 0; i++ {
		_, value, rest, err := next(encoded)
		if err != nil {
			return nil, err
		}
		if i > 0 {
			to = append(to, ',')
		}
		if to, err = f.value.append(to, value, true, s); err != nil {
			return nil, err
		}
		encoded = rest
	}
	return append(to, ']'), nil
}

// appendMap appends a map. Each entry is a message with a key and a value, which may be missing.
func (f *field) appendMap(to, encoded []byte, s *Space) ([]byte, error) {
	to = append(to, '{')
	var last []byte
	for i := 0; len(encoded) > 0; i++ {
		_, entry, rest, err := next(encoded)
		if err != nil {
			return nil, err
		}
		tag, key, valueField, err := next(entry)
		if err != nil || tag != tagKey || i > 0 && string(key) <= string(last) {
			return nil, errNotCanonical
		}
		var value []byte
		if len(valueField) > 0 {
			var after []byte
			if tag, value, after, err = next(valueField); err != nil || tag>>3 != tagValue>>3 || len(after) > 0 {
				return nil, errNotCanonical
			}
			if (tag&7 == varint) != f.isVarint() {
				return nil, errNotCanonical
			}
		}
		if i > 0 {
			to = append(to, ',')
		}
		to = append(appendString(to, key), ':')
		if to, err = f.value.append(to, value, len(valueField) > 0, s); err != nil {
			return nil, err
		}
		last, encoded = key, rest
	}
	return append(to, '}'), nil
}

// append appends a value. If there is none in the message, the value is the zero value of the type.
func (t value) append(to, encoded []byte, there bool, s *Space) ([]byte, error) {
	switch t.kind {
	case kindString:
		return appendString(to, encoded), nil
	case kindBytes:
		to = append(to, '"')
		to = base64.StdEncoding.AppendEncode(to, encoded)
		return append(to, '"'), nil
	case kindBool:
		n, _ := uvarint(encoded)
		return strconv.AppendBool(to, n != 0), nil
	case kindInt:
		n, _ := uvarint(encoded)
		return strconv.AppendInt(to, t.integer(n), 10), nil
	case kindMessage:
		to, err := t.message.append(append(to, '{'), encoded, s)
		if err != nil {
			return nil, err
		}
		return append(to, '}'), nil
	case kindTime, kindMicroTime:
		return t.appendTime(to, encoded)
	case kindQuantity:
		if len(encoded) == 0 {
			return append(to, `"0"`...), nil
		}
		text, _, err := only(encoded)
		return appendString(to, text), err
	case kindIntOrString:
		return appendIntOrString(to, encoded)
	}
	return t.appendRaw(to, encoded, s)
}

// only returns the content of the only field of a message, with the number 1, or false if there is none.
func only(encoded []byte) ([]byte, bool, error) {
	if len(encoded) == 0 {
		return nil, false, nil
	}
	tag, value, rest, err := next(encoded)
	if err != nil || tag != tagOnly || len(rest) > 0 {
		return nil, false, errNotCanonical
	}
	return value, true, nil
}

// numbers returns the fields of an encoded metav1.Timestamp.
func numbers(encoded []byte) (seconds int64, nanoseconds int32, err error) {
	for last := uint64(0); len(encoded) > 0; {
		tag, value, rest, err := next(encoded)
		if err != nil || tag&7 != varint || tag>>3 <= last || tag>>3 > 2 {
			return 0, 0, errNotCanonical
		}
		n, _ := uvarint(value)
		if last = tag >> 3; last == 1 {
			seconds = int64(n)
		} else {
			nanoseconds = int32(n)
		}
		encoded = rest
	}
	return seconds, nanoseconds, nil
}

func isZeroTime(encoded []byte) bool {
	seconds, _, err := numbers(encoded)
	return err == nil && time.Unix(seconds, 0).IsZero()
}

// appendTime appends a time.
//
//upstream:k8s.io/apimachinery/pkg/apis/meta/v1.Time.MarshalJSON
//upstream:k8s.io/apimachinery/pkg/apis/meta/v1.Time.Unmarshal
//upstream:k8s.io/apimachinery/pkg/apis/meta/v1.MicroTime.MarshalJSON
//upstream:k8s.io/apimachinery/pkg/apis/meta/v1.MicroTime.Unmarshal
func (t value) appendTime(to, encoded []byte) ([]byte, error) {
	seconds, nanoseconds, err := numbers(encoded)
	if err != nil {
		return nil, err
	}
	format, at := time.RFC3339, time.Unix(seconds, 0)
	if t.kind == kindMicroTime {
		format = metav1.RFC3339Micro
		at = time.Unix(seconds, int64(time.Duration(nanoseconds).Truncate(time.Microsecond)))
	}
	if len(encoded) == 0 || at.IsZero() {
		return append(to, null...), nil
	}
	return append(at.UTC().AppendFormat(append(to, '"'), format), '"'), nil
}

// appendIntOrString appends a number or a string. The encoding always has the fields type, intVal and strVal.
//
//upstream:k8s.io/apimachinery/pkg/util/intstr.IntOrString.MarshalJSON
func appendIntOrString(to, encoded []byte) ([]byte, error) {
	if len(encoded) == 0 {
		return append(to, '0'), nil
	}
	var values [3][]byte
	for i, wire := range [...]uint64{varint, varint, delimited} {
		tag, value, rest, err := next(encoded)
		if err != nil || tag != uint64(i+1)<<3|wire {
			return nil, errNotCanonical
		}
		values[i], encoded = value, rest
	}
	isString, _ := uvarint(values[0])
	switch {
	case len(encoded) > 0 || isString > 1:
		return nil, errNotCanonical
	case isString == 1:
		return appendString(to, values[2]), nil
	}
	n, _ := uvarint(values[1])
	return strconv.AppendInt(to, int64(int32(n)), 10), nil
}

// The JSON of embedded JSON is kept if it is small, and if there are few of it.
const maxRaw, maxRawSize = 256, 4 << 10

// appendRaw appends embedded JSON.
func (t value) appendRaw(to, encoded []byte, s *Space) ([]byte, error) {
	raw, there, err := only(encoded)
	if err != nil {
		return nil, err
	}
	if t.kind == kindRaw && !there || t.kind == kindFields && len(raw) == 0 {
		return append(to, null...), nil
	}
	if text, ok := s.raw[string(raw)]; ok && t.kind == kindFields {
		return append(to, text...), nil
	}
	var embedded any = runtime.RawExtension{Raw: raw}
	if t.kind == kindFields {
		embedded = metav1.NewFieldsV1(string(raw))
	}
	text, err := json.Marshal(embedded)
	if err != nil {
		return nil, err
	}
	if t.kind == kindFields && len(raw) <= maxRawSize && len(s.raw) < maxRaw {
		if s.raw == nil {
			s.raw = map[string][]byte{}
		}
		s.raw[string(raw)] = slices.Clip(text)
	}
	return append(to, text...), nil
}
