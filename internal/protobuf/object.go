package protobuf

import "bytes"

// ResourceVersion returns the resource version of an encoded object, or false if data is not an object of the kind with a
// resource version.
func ResourceVersion(data []byte, apiVersion, kind string) (string, bool) {
	unknown, ok := bytes.CutPrefix(data, []byte("k8s\x00"))
	if !ok {
		return "", false
	}
	typeMeta, raw := First(unknown, 1), First(unknown, 2)
	if string(First(typeMeta, 1)) != apiVersion || string(First(typeMeta, 2)) != kind {
		return "", false
	}
	version := First(First(raw, 1), 6)
	return string(version), len(version) > 0
}
