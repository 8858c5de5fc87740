package store

import (
	"bytes"
	"encoding/json"
	"maps"
	"reflect"
	"strings"
	"testing"
)

// FuzzPlaceOfVersion compares objects that get a resource version as text with objects that get one as a value.
func FuzzPlaceOfVersion(f *testing.F) {
	for _, seed := range []string{
		`{"apiVersion":"v1","kind":"K","metadata":{"name":"n","uid":"u"},"spec":{}}`,
		`{"metadata":{"name":"n"}}`,
		`{"metadata":{"uid":"u"}}`,
		`{"metadata":{}}`,
		`{"metadata":{"name":"n","resourceVersion":""}}`,
		`{"metadata":"name"}`,
		`{"metadata":["name"]}`,
		`{"metadata":null}`,
		`{"a":{"metadata":{"name":"n"}}}`,
		`{"a\"}":"\\","b":["]\\\"",{"}":1}],"metadata":{"annotations":{"a":"}\"]","\\":"\\\\"},"name":"n"}}`,
		`{"data":{"x":1.5e30,"y":-1,"z":[true,false,null]},"metadata":{"name":"n"}}`,
		`{"a b":1,"metadata ":2,"metadata":{"a!":1,"resource version":1,"resourceVersion!":1}}`,
		`{"<":1,"metadata":{"<":"&","é":" "}}`,
		`{}`, `[]`, `1`, ``,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, seed []byte) {
		if at, ok := placeOfVersion(seed); ok && at >= len(seed) { // whatever the bytes are
			t.Fatalf("%d of %d", at, len(seed))
		}
		var content map[string]any
		decoder := json.NewDecoder(bytes.NewReader(seed))
		decoder.UseNumber()
		if decoder.Decode(&content) != nil || content == nil {
			return
		}
		text, err := json.Marshal(content)
		if err != nil {
			t.Skip(err)
		}
		at, ok := placeOfVersion(text)
		metadata, isMap := content["metadata"].(map[string]any)
		_, has := metadata["resourceVersion"]
		plain := true
		for _, keys := range []map[string]any{content, metadata} {
			for key := range keys {
				plain = plain && !strings.ContainsFunc(key, func(r rune) bool { return r <= '"' || r > '~' || strings.ContainsRune(`<>&\`, r) })
			}
		}
		if wanted := isMap && len(metadata) > 0 && !has; ok != wanted && (plain || ok) {
			t.Fatalf("%s: %t", text, ok)
		}
		if !ok {
			return
		}
		got := insertVersion(nil, text, at, 17)
		metadata = maps.Clone(metadata)
		metadata["resourceVersion"] = "17"
		content["metadata"] = metadata
		want, err := json.Marshal(content)
		if err != nil {
			t.Fatal(err)
		}
		var decoded map[string]any
		decoder = json.NewDecoder(bytes.NewReader(got))
		decoder.UseNumber()
		if err := decoder.Decode(&decoded); err != nil || !reflect.DeepEqual(decoded, content) || plain && !bytes.Equal(got, want) {
			t.Fatalf("%s, want %s: %v", got, want, err)
		}
	})
}
