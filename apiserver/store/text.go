package store

import (
	"bytes"
	"encoding/json"
	"strconv"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"flyball.dev/storage"
)

// A store with a [TextCodec] copies stored objects to lists as they are, with their resource version. That is right only if decoding a
// value and encoding the object changes nothing: no default, no pruned field. This depends on the schema, and each schema has a store of
// its own. So the note of a value is the token of the store that has examined it, with noteExact if copying is right, and another store
// examines it again.

// lastToken counts the stores with a [TextCodec]. A process does not live to see 2³⁰ changes of definitions.
var lastToken atomic.Uint32

// newToken returns a token that no other store has.
func newToken() uint32 { return (noteVerbatim + lastToken.Add(1)) &^ (noteExact | noteSealed) }

// isNoted reports whether a record has the notes that the store needs about the value.
func (s *Store) isNoted(r *storage.Record) bool {
	note := s.note(r)
	return note != noteNone && (s.text == nil || note&^noteExact == s.token)
}

// isText reports whether the value of a record is the JSON of the object, but for the resource version.
func (s *Store) isText(r *storage.Record) bool { return s.text != nil && r.Note() == s.token|noteExact }

// textNote returns the note of a value from which a store of JSON decoded an object.
func (s *Store) textNote(value []byte, obj runtime.Object) uint32 {
	buffer := encodeBuffers.Get().(*[]byte)
	defer encodeBuffers.Put(buffer)
	text, err := s.text.AppendText((*buffer)[:0], obj)
	*buffer = text
	if err != nil || !bytes.Equal(text, bytes.TrimSuffix(value, newline)) {
		return s.token
	}
	if _, ok := placeOfVersion(text); !ok {
		return s.token
	}
	return s.token | noteExact
}

var newline = []byte("\n")

// appendText appends a value that is text with the resource version.
func appendText(to, value []byte, revision uint64) []byte {
	text := bytes.TrimSuffix(value, newline)
	at, _ := placeOfVersion(text)
	return insertVersion(to, text, at, revision)
}

// insertVersion appends an object with the resource version at its place.
func insertVersion(to, text []byte, at int, revision uint64) []byte {
	to = append(to, text[:at]...)
	last := text[at] == '}' // of the metadata
	if last {
		to = append(to, ',')
	}
	to = append(append(to, versionKey...), ':', '"')
	to = append(strconv.AppendUint(to, revision, 10), '"')
	if !last {
		to = append(to, ',')
	}
	return append(to, text[at:]...)
}

// The keys in JSON of metadata and of the resource version in it.
var metadataKey, versionKey = []byte(`"metadata"`), []byte(`"resourceVersion"`)

// placeOfVersion returns where the resource version belongs in an object as JSON with sorted keys and no spaces: at the next key of the
// metadata, or at their end. It returns false if there is no metadata, or if it is empty or has a version.
func placeOfVersion(text []byte) (at int, ok bool) {
	metadata, ok := seek(text, 0, metadataKey)
	if !ok || metadata >= len(text) || text[metadata] != '{' {
		return 0, false
	}
	at, has := seek(text, metadata, versionKey)
	return at, !has && at < len(text) && string(text[at-1:at+1]) != "{}"
}

// metadataIn returns the metadata of an object that is text, without the resource version. It returns false if encoding may change the
// text of managed fields.
func metadataIn(text []byte) (*metav1.PartialObjectMetadata, bool) {
	at, ok := seek(text, 0, metadataKey)
	if !ok {
		return nil, false
	}
	value := text[at:skipValue(text, at)]
	m := &metav1.PartialObjectMetadata{}
	return m, !bytes.ContainsAny(value, "<>&\u2028\u2029") && json.Unmarshal(value, &m.ObjectMeta) == nil
}

// seek returns where the value of a key begins in the object that begins at an index. If the object does not have the key, seek returns
// false, and where the next greater key begins or the object ends.
func seek(text []byte, i int, key []byte) (at int, found bool) {
	for i++; i < len(text) && text[i] == '"'; {
		end := skipString(text, i)
		switch c := bytes.Compare(text[i:end], key); {
		case c == 0:
			return end + 1, true
		case c > 0:
			return i, false
		}
		if i = skipValue(text, end+1); i < len(text) && text[i] == ',' {
			i++
		}
	}
	return i, false
}

// skipValue returns the index after the value that begins at an index.
func skipValue(text []byte, i int) int {
	for depth := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			i = skipString(text, i) - 1
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		case ',':
			if depth == 0 {
				return i
			}
		}
		if depth < 0 {
			return i
		}
	}
	return i
}

// skipString returns the index after the string that begins at an index.
func skipString(text []byte, i int) int {
	for i++; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(text)
}
