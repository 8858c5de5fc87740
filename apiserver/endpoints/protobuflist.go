package endpoints

import (
	"bytes"
	"encoding/binary"
	"math/bits"

	"flyball.dev/internal/protobuf"
)

// An encoded list is a prefix and an envelope, a runtime.Unknown, with the kind and the list. The list has the fields
// metadata and items.
const (
	tagKind = 1<<3 | 2 // of the envelope
	tagList = 2<<3 | 2 // of the envelope
	tagItem = 2<<3 | 2 // of the list
)

var protobufPrefix = []byte("k8s\x00")

// protobufEnvelope returns the bytes before and after the items of a list, from the encoding of the list without items
// and the size of the encoded items.
func protobufEnvelope(empty []byte, items int) (before, after []byte, ok bool) {
	message, ok := bytes.CutPrefix(empty, protobufPrefix)
	if !ok {
		return nil, nil, false
	}
	kind, rest, ok := protobuf.Next(message)
	if !ok || kind.Tag != tagKind {
		return nil, nil, false
	}
	list, after, ok := protobuf.Next(rest)
	if !ok || list.Tag != tagList {
		return nil, nil, false
	}
	before = append(before, empty[:len(empty)-len(rest)]...)
	before = append(before, tagList)
	before = binary.AppendUvarint(before, uint64(len(list.Content)+items))
	return append(before, list.Content...), after, true
}

// appendFieldStart appends the tag and the size of a field. The tag is less than 128.
func appendFieldStart(to []byte, tag byte, size int) []byte {
	return binary.AppendUvarint(append(to, tag), uint64(size))
}

// fieldSize returns the size of a field with its tag and its size.
func fieldSize(size int) int { return 1 + (bits.Len64(uint64(size)|1)+6)/7 + size }
