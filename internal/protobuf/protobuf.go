// Package protobuf reads encoded protobuf messages without their types.
package protobuf

import "encoding/binary"

// Wire types of protobuf.
const (
	varint = iota
	fixed64
	lengthDelimited
	startGroup
	endGroup
	fixed32
)

// Field is a field of a message.
type Field struct {
	Tag     uint64 // the number of the field, and in the lowest three bits the wire type
	Content []byte // of a string, bytes, or a message
}

// IsBytes reports whether a field is a string, bytes, or a message.
func (f Field) IsBytes() bool { return f.Tag&7 == lengthDelimited }

// Number returns the number of the field in its message.
func (f Field) Number() uint64 { return f.Tag >> 3 }

// Next returns the first field of a message and the rest of the message. It returns false if the message is
// invalid.
func Next(message []byte) (f Field, rest []byte, ok bool) {
	tag, n := binary.Uvarint(message)
	if n <= 0 {
		return f, nil, false
	}
	f.Tag, message = tag, message[n:]
	size := uint64(0)
	switch tag & 7 {
	case varint:
		if _, n = binary.Uvarint(message); n <= 0 {
			return f, nil, false
		}
		size = uint64(n)
	case fixed64:
		size = 8
	case fixed32:
		size = 4
	case lengthDelimited:
		if size, n = binary.Uvarint(message); n <= 0 {
			return f, nil, false
		}
		message = message[n:]
	case startGroup, endGroup:
	default:
		return f, nil, false
	}
	if size > uint64(len(message)) {
		return f, nil, false
	}
	if f.IsBytes() {
		f.Content = message[:size]
	}
	return f, message[size:], true
}

// First returns the content of the first field of a message with a number, or nil if there is none.
func First(message []byte, number uint64) []byte {
	for len(message) > 0 {
		f, rest, ok := Next(message)
		if !ok {
			return nil
		}
		if f.IsBytes() && f.Number() == number {
			return f.Content
		}
		message = rest
	}
	return nil
}
