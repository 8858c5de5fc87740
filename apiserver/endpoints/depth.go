package endpoints

import (
	"bytes"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"

	"flyball.dev/internal/protobuf"
)

// maxDepth is the maximum nesting of objects and lists in a document. JSON decoders accept 10,000 levels, but the cost
// of managed fields grows with the square of the depth: 9,000 levels in 54 KB take seconds and gigabytes, 128 levels a
// few milliseconds. apimachinery's CBOR decoder accepts 64. The deepest documents are the schemas of definitions, which
// have two levels for each level of an object.
const maxDepth = 128

// checkDocument returns an error for a document that costs more to decode than its size suggests: one nested deeper
// than maxDepth, or YAML that expands to more than limit bytes with its aliases, unless limit is zero. For documents
// that cannot be decoded the result may be wrong. The CBOR decoder limits the depth itself.
func checkDocument(contentType string, data []byte, limit int64) error {
	deep := false
	switch mediaType := mediaTypeOf(contentType); {
	case isJSON(contentType):
		deep = jsonTooDeep(data)
	case strings.HasSuffix(mediaType, "yaml"):
		shape, err := yamlShape(data)
		switch {
		case err != nil:
			return errors.NewBadRequest(fmt.Sprintf("error converting YAML to JSON: %v", err))
		case limit > 0 && shape.aliases && shape.size > limit:
			return tooLarge(limit)
		}
		deep = shape.depth > maxDepth
	case mediaType == runtime.ContentTypeProtobuf:
		deep = protobufTooDeep(bytes.TrimPrefix(data, []byte("k8s\x00")), maxDepth)
	}
	if deep {
		return errors.NewBadRequest(fmt.Sprintf("the request body is nested more than %d levels deep", maxDepth))
	}
	return nil
}

// mediaTypeOf returns the media type of a Content-Type header, in lower case and without parameters.
func mediaTypeOf(contentType string) string {
	mediaType, _, _ := strings.Cut(contentType, ";")
	return strings.ToLower(strings.TrimSpace(mediaType))
}

// isJSON reports whether a Content-Type header means JSON, the default without a header.
func isJSON(contentType string) bool {
	mediaType := mediaTypeOf(contentType)
	return mediaType == "" || strings.HasSuffix(mediaType, "json")
}

func jsonTooDeep(data []byte) bool {
	if bytes.Count(data, []byte("{"))+bytes.Count(data, []byte("[")) <= maxDepth {
		return false
	}
	depth, quoted := 0, false
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case c == '"':
			quoted = !quoted
		case quoted:
			if c == '\\' {
				i++
			}
		case c|' ' == '{': // or [
			if depth++; depth > maxDepth {
				return true
			}
		case c|' ' == '}': // or ]
			depth--
		}
	}
	return false
}

// protobufTooDeep treats every length-delimited field as a message, including strings and bytes. A decoder reads a
// message in order, so the fields before an error count and the fields after it do not.
func protobufTooDeep(message []byte, room int) bool {
	for len(message) > 2*room { // a level takes two bytes at least
		f, rest, ok := protobuf.Next(message)
		if !ok {
			return false
		}
		if f.IsBytes() && (room == 0 || protobufTooDeep(f.Content, room-1)) {
			return true
		}
		message = rest
	}
	return false
}
