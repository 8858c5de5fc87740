package endpoints

import (
	"bytes"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "sigs.k8s.io/yaml"

	"flyball.dev/internal/protobuf"
)

// maxObjects is the maximum number of objects in a document that is decoded to Go types. An empty container takes three
// bytes of JSON or two of protobuf, and a thousand bytes of memory. Containers of 20 bytes or more are no problem: a
// document has room for no more than maxObjects of them.
const maxObjects = 150_000

// checkObjects returns an error for a document with too many objects and nulls. A null in a list decodes to an object.
func checkObjects(contentType string, data []byte) error {
	if len(data) < 2*maxObjects {
		return nil // an object takes two bytes at least
	}
	n := 0
	switch mediaType := mediaTypeOf(contentType); {
	case mediaType == runtime.ContentTypeProtobuf:
		n = smallElements(bytes.TrimPrefix(data, []byte("k8s\x00")), maxDepth)
	case strings.HasSuffix(mediaType, "yaml"):
		if bytes.Count(data, []byte("{"))+bytes.Count(data, []byte("-"))+bytes.Count(data, []byte(",")) > maxObjects {
			if converted, err := utilyaml.YAMLToJSON(data); err == nil {
				n = objectsOfJSON(converted)
			}
		}
	case isJSON(contentType):
		n = objectsOfJSON(data)
	}
	if n > maxObjects {
		return errors.NewRequestEntityTooLargeError(fmt.Sprintf("limit is %d objects, got %d", maxObjects, n))
	}
	return nil
}

// objectsOfJSON returns the number of objects and nulls in a JSON document. It returns 0 for a document that cannot
// have too many.
func objectsOfJSON(data []byte) int {
	if bytes.Count(data, []byte("{"))+bytes.Count(data, []byte("null")) <= maxObjects {
		return 0
	}
	n, quoted := 0, false
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case !quoted && (c == '{' || c == 'n'):
			n++
		}
	}
	return n
}

// smallElement is the size in bytes below which a decoded message takes much more memory than its encoding.
const smallElement = 16

// smallElements returns the number of small messages and strings in a message that repeat the preceding field, at most
// depth levels deep. The encoding does not show which fields are messages.
func smallElements(message []byte, depth int) (n int) {
	var last uint64
	for len(message) > 0 {
		f, rest, ok := protobuf.Next(message)
		if !ok {
			return n
		}
		if f.IsBytes() {
			if f.Tag == last && len(f.Content) < smallElement {
				n++
			}
			if len(f.Content) > smallElement && depth > 0 {
				n += smallElements(f.Content, depth-1)
			}
		}
		last, message = f.Tag, rest
	}
	return n
}
