package store

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"reflect"
	"strconv"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"

	"flyball.dev/apiserver/store/transcode"
	"flyball.dev/internal/protobuf"
	"flyball.dev/storage"
)

// The notes of a record are about its decrypted value. A value is verbatim if decoding it and encoding the object changes
// nothing. The note of a verbatim value is the length of its metadata, plus noteVerbatim. The metadata is the first field of
// the encoded object. The note of an exact value has noteExact too: the codec adds nothing to the object that JSON shows and
// protobuf does not, such as the kind of a StatefulSet's claim templates. So the JSON of the object follows from the value.
// See text.go for the notes of stores of JSON.
const (
	noteNone     = 0 // nothing is known about the value
	noteSound    = 1 // it can be decoded
	noteVerbatim = 2
	noteSealed   = 1 << 30 // the note of a store with encryption, which says nothing to others
	noteExact    = 1 << 31
)

// note returns the note of a record without noteSealed, or noteNone if only a store of the other sort knows the value.
func (s *Store) note(r *storage.Record) uint32 {
	note := r.Note()
	if s.text == nil && note != noteNone && note&noteSealed != s.sealed() {
		return noteNone
	}
	return note &^ noteSealed
}

// sealed returns noteSealed if the store has encryption.
func (s *Store) sealed() uint32 {
	if s.transformer != nil {
		return noteSealed
	}
	return 0
}

// Tags of fields, each less than 128. Fields of objects and of lists are messages, the others are strings and bytes.
const (
	tagMetadata  = 1<<3 | 2 // of an object, and of a list
	tagItem      = 2<<3 | 2 // of a list
	tagRaw       = 2<<3 | 2 // the object in its envelope, a runtime.Unknown
	tagLabels    = 11<<3 | 2
	tagName      = 1<<3 | 2
	tagNamespace = 3<<3 | 2
	tagVersion   = 6<<3 | 2
)

// tagManaged is the tag of the managed fields, the last fields of metadata.
const tagManaged = 17<<3 | 2

// envelopeEnd follows the object in its envelope: the empty content encoding and content type.
var envelopeEnd = []byte{3<<3 | 2, 0, 4<<3 | 2, 0}

// envelopeStart returns how stored objects begin: the prefix of protobuf and the kind. It returns nil if they are not
// stored as protobuf.
func (s *Store) envelopeStart() []byte {
	empty := s.newObject()
	if _, ok := empty.(protobufObject); !ok {
		return nil
	}
	value, err := runtime.Encode(s.codec, empty)
	if err != nil || !bytes.HasPrefix(value, protobufPrefix) {
		return nil
	}
	kind, rest, ok := protobuf.Next(value[len(protobufPrefix):])
	if !ok || kind.Tag != 1<<3|2 {
		return nil
	}
	return value[:len(value)-len(rest)]
}

var protobufPrefix = []byte("k8s\x00")

// protobufObject is an object with generated methods of protobuf.
type protobufObject interface {
	Size() int
	MarshalTo([]byte) (int, error)
	Unmarshal([]byte) error
}

// encodedObject returns the encoded object in a stored value, or false if the value is in another format than the
// store's.
func (s *Store) encodedObject(value []byte) ([]byte, bool) { return encodedObject(s.start(), value) }

// encodedObject returns the encoded object in a stored value that begins with start.
func encodedObject(start, value []byte) ([]byte, bool) {
	rest, ok := bytes.CutPrefix(value, start)
	if !ok || start == nil {
		return nil, false
	}
	raw, end, ok := protobuf.Next(rest)
	return raw.Content, ok && raw.Tag == tagRaw && bytes.Equal(end, envelopeEnd)
}

// noteOf returns the note of a value from which an object was decoded. The object has no resource version yet.
func (s *Store) noteOf(value []byte, decoded *object) uint32 {
	if decoded.converted {
		return noteNone // the webhook may be gone
	}
	if s.text != nil {
		return s.textNote(value, decoded.Object)
	}
	obj, ok := decoded.Object.(protobufObject)
	raw, isKind := s.encodedObject(value)
	if !ok || !isKind || obj.Size() != len(raw) {
		return noteSound | s.sealed()
	}
	buffer := encodeBuffers.Get().(*[]byte)
	defer encodeBuffers.Put(buffer)
	*buffer = append((*buffer)[:0], raw...)
	if n, err := obj.MarshalTo(*buffer); err != nil || n != len(raw) || !bytes.Equal(*buffer, raw) {
		return noteSound | s.sealed()
	}
	metadata, _, ok := protobuf.Next(raw)
	if !ok || metadata.Tag != tagMetadata || versionIn(metadata.Content) < 0 {
		return noteSound | s.sealed()
	}
	note := noteVerbatim + uint32(len(metadata.Content))
	if t := s.transcoder(); t != nil && t.Exact(decoded.Object) {
		note |= noteExact
	}
	return note | s.sealed()
}

// typeTranscoder returns the transcoder of the stored objects to JSON, or nil if there is none.
func (s *Store) typeTranscoder() *transcode.Type {
	if s.start() == nil {
		return nil
	}
	t, err := transcode.For(reflect.TypeOf(s.newObject()).Elem())
	if err != nil {
		return nil // its objects are decoded
	}
	return t
}

var encodeBuffers = sync.Pool{New: func() any { return new([]byte) }}

// versionIn returns the index of the empty resource version in encoded metadata, or -1 if there is none.
func versionIn(metadata []byte) int {
	for rest := metadata; len(rest) > 0; {
		f, after, ok := protobuf.Next(rest)
		if !ok || f.Tag > tagVersion {
			return -1
		}
		if f.Tag == tagVersion && len(f.Content) == 0 {
			return len(metadata) - len(rest)
		}
		rest = after
	}
	return -1
}

// isVerbatim reports whether the value of a record is verbatim.
func (s *Store) isVerbatim(r *storage.Record) bool {
	return s.protobuf && s.note(r) >= noteVerbatim
}

// isExact reports whether the value of a record is exact.
func (s *Store) isExact(r *storage.Record) bool {
	return s.protobuf && s.note(r)&noteExact != 0
}

// encodedSize returns the size of the object in a verbatim value of a size.
func (s *Store) encodedSize(value int) int {
	size := value - len(s.start()) - 1 - len(envelopeEnd)
	for n := 1; ; n++ {
		if lengthSize(size-n) <= n {
			return size - n
		}
	}
}

// lengthSize returns the size of an encoded length.
func lengthSize(n int) int { return (bits.Len64(uint64(n)|1) + 6) / 7 }

// verbatimSize returns the size of the object of a verbatim record, with a value of a size, with its resource version.
func (s *Store) verbatimSize(r *storage.Record, value int) int {
	metadata, version := s.metadataLength(r), versionSize(r.Revision)
	return s.encodedSize(value) + version + lengthSize(metadata+version) - lengthSize(metadata)
}

// verbatimMetadataSize returns the size of the metadata of a verbatim record, as a field and with its resource version.
func (s *Store) verbatimMetadataSize(r *storage.Record) int {
	size := s.metadataLength(r) + versionSize(r.Revision)
	return 1 + lengthSize(size) + size
}

// metadataLength returns the length of the metadata of a verbatim record.
func (s *Store) metadataLength(r *storage.Record) int {
	return int(s.note(r)&^noteExact - noteVerbatim)
}

// versionSize returns the number of digits of a resource version.
func versionSize(revision uint64) int {
	n := 1
	for ; revision >= 10; revision /= 10 {
		n++
	}
	return n
}

// appendVerbatim appends an encoded object that is verbatim with its resource version.
func appendVerbatim(to, raw []byte, revision uint64) []byte {
	_, rest, _ := protobuf.Next(raw)
	return append(appendVerbatimMetadata(to, raw, revision), rest...)
}

// appendVerbatimMetadata appends the metadata of an encoded object that is verbatim, as a field and with the resource version.
func appendVerbatimMetadata(to, raw []byte, revision uint64) []byte {
	metadata, _, _ := protobuf.Next(raw)
	to = append(to, tagMetadata)
	to = binary.AppendUvarint(to, uint64(len(metadata.Content)+versionSize(revision)))
	return appendMetadata(to, metadata.Content, revision)
}

// appendUnmanaged appends an encoded object that is verbatim without its managed fields.
func appendUnmanaged(to, raw []byte) []byte {
	metadata, rest, _ := protobuf.Next(raw)
	kept := metadata.Content
	for left := kept; len(left) > 0; {
		f, after, ok := protobuf.Next(left)
		if !ok {
			return append(to, raw...)
		}
		if f.Tag == tagManaged {
			kept = kept[:len(kept)-len(left)]
			break
		}
		left = after
	}
	to = append(to, tagMetadata)
	to = binary.AppendUvarint(to, uint64(len(kept)))
	return append(append(to, kept...), rest...)
}

// appendMetadata appends metadata with its resource version, which is empty in metadata.
func appendMetadata(to, metadata []byte, revision uint64) []byte {
	at := versionIn(metadata)
	to = append(to, metadata[:at]...)
	to = append(to, tagVersion, byte(versionSize(revision)))
	to = strconv.AppendUint(to, revision, 10)
	return append(to, metadata[at+2:]...)
}
