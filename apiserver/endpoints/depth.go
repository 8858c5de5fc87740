package endpoints

import (
	"bytes"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
)

// maxDepth is the maximum nesting of objects and lists in a document. JSON decoders accept 10,000 levels, but the cost
// of managed fields grows with the square of the depth: 9,000 levels in 54 KB take seconds and gigabytes, 128 levels a
// few milliseconds. apimachinery's CBOR decoder accepts 64. The deepest documents are the schemas of definitions, which
// have two levels for each level of an object.
// object.
const maxDepth = 128

// checkDocument returns an error for a document that costs more to decode than its size suggests: one nested deeper
// than maxDepth, or YAML that expands to more than limit bytes with its aliases, unless limit is zero. For documents
// that cannot be decoded the result may be wrong. The CBOR decoder limits the depth itself.
func checkDocument(contentType string, data []byte, limit int64) error {
	mediaType, _, _ := strings.Cut(contentType, ";")
	deep := false
	switch mediaType = strings.ToLower(strings.TrimSpace(mediaType)); {
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

// isJSON reports whether a media type, which may have parameters, is JSON. JSON is the default for an empty media type.
func isJSON(contentType string) bool {
	mediaType, _, _ := strings.Cut(contentType, ";")
	mediaType = strings.ToLower(strings.TrimSpace(mediaType))
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
		f, rest, ok := nextField(message)
		if !ok {
			return false
		}
		if f.isBytes() && (room == 0 || protobufTooDeep(f.content, room-1)) {
			return true
		}
		message = rest
	}
	return false
}
