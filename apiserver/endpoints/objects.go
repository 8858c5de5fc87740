package endpoints

import (
	"bytes"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "sigs.k8s.io/yaml"
)

// maxObjects is how many objects a document may have that is decoded to Go types. An empty container takes three
// bytes of JSON, or two of protobuf, and a thousand bytes of memory; a container of 20 bytes is none of these
// amplifiers, and a document has room for no more of them.
const maxObjects = 150_000

// checkObjects returns an error for a document with too many objects, or nulls, which decode to objects in a list.
func checkObjects(contentType string, data []byte) error {
	if len(data) < 2*maxObjects {
		return nil // an object takes two bytes at least
	}
	mediaType, _, _ := strings.Cut(contentType, ";")
	n := 0
	switch mediaType = strings.ToLower(strings.TrimSpace(mediaType)); {
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

// objectsOfJSON returns how many objects and nulls a document of JSON has, or less if there cannot be too many.
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

// smallElement is the size of a message below which it takes much more memory than bytes.
const smallElement = 16

// smallElements returns the number of small messages and strings in a message that repeat the field before them,
// at most depth levels deep. A message does not show which of its fields are messages.
func smallElements(message []byte, depth int) (n int) {
	var last uint64
	for len(message) > 0 {
		f, rest, ok := nextField(message)
		if !ok {
			return n
		}
		if f.isBytes() {
			if f.tag == last && len(f.content) < smallElement {
				n++
			}
			if len(f.content) > smallElement && depth > 0 {
				n += smallElements(f.content, depth-1)
			}
		}
		last, message = f.tag, rest
	}
	return n
}
