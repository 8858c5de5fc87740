package endpoints

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

// maxDepth is how many levels of objects and lists a document may have. Decoders of JSON take 10,000, but
// managed fields are found path by path, at a cost that grows with the square of the depth: 9,000 levels
// in 54 KB take seconds and gigabytes, 128 a few milliseconds. Upstream's decoder of CBOR takes 64; the
// schemas of definitions, with two levels for each of an object's, are what comes near that.
const maxDepth = 128

// tooDeep tells whether a document is nested too deep to go on with it. It errs only for documents that
// no decoder takes. CBOR is left to its decoder, which has a limit of its own.
func tooDeep(contentType string, data []byte) bool {
	mediaType, _, _ := strings.Cut(contentType, ";")
	switch mediaType = strings.ToLower(strings.TrimSpace(mediaType)); {
	case mediaType == "" || strings.HasSuffix(mediaType, "json"):
		return jsonTooDeep(data)
	case strings.HasSuffix(mediaType, "yaml"):
		return yamlTooDeep(data)
	case mediaType == runtime.ContentTypeProtobuf:
		return protobufTooDeep(bytes.TrimPrefix(data, []byte("k8s\x00")), maxDepth)
	}
	return false
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

// yamlTooDeep converts what is not JSON, as its decoders do: the depth of YAML shows neither in its
// brackets nor in its indentation.
func yamlTooDeep(data []byte) bool {
	levels := 0
	for _, opening := range []string{"{", "[", ":", "-", "?"} {
		levels += bytes.Count(data, []byte(opening))
	}
	if levels <= maxDepth {
		return false
	}
	if !json.Valid(data) {
		converted, err := yaml.YAMLToJSON(data)
		if err != nil {
			return false
		}
		data = converted
	}
	return jsonTooDeep(data)
}

// protobufTooDeep reads whatever can be read as a message as one, also texts and bytes. A decoder works
// through a message in order, so what follows on an error does not matter and what comes before does.
func protobufTooDeep(message []byte, room int) bool {
	const varint, fixed64, bytes, startGroup, endGroup, fixed32 = 0, 1, 2, 3, 4, 5
	for len(message) > 2*room { // a level takes two bytes at least
		tag, n := binary.Uvarint(message)
		if n <= 0 {
			return false
		}
		message = message[n:]
		var skip uint64
		switch tag & 7 {
		case varint:
			if _, n = binary.Uvarint(message); n <= 0 {
				return false
			}
			skip = uint64(n)
		case fixed64:
			skip = 8
		case fixed32:
			skip = 4
		case bytes:
			if skip, n = binary.Uvarint(message); n <= 0 {
				return false
			}
			message = message[n:]
			if skip <= uint64(len(message)) && (room == 0 || protobufTooDeep(message[:skip], room-1)) {
				return true
			}
		case startGroup, endGroup:
		default:
			return false
		}
		if skip > uint64(len(message)) {
			return false
		}
		message = message[skip:]
	}
	return false
}
