package endpoints

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

// protobufField is a field of a protobuf message.
type protobufField struct {
	tag     uint64
	content []byte // of a string, bytes, or a message
}

// isBytes reports whether a field is a string, bytes, or a message.
func (f protobufField) isBytes() bool { return f.tag&7 == lengthDelimited }

// nextField returns the first field of a message and the rest of the message. It returns false if the message is
// invalid.
func nextField(message []byte) (f protobufField, rest []byte, ok bool) {
	tag, n := binary.Uvarint(message)
	if n <= 0 {
		return f, nil, false
	}
	f.tag, message = tag, message[n:]
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
	if f.isBytes() {
		f.content = message[:size]
	}
	return f, message[size:], true
}
