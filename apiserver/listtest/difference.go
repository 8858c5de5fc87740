package listtest

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http/httptest"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
)

// differ returns how two responses differ, or "".
func differ(got, want *httptest.ResponseRecorder) string {
	ours, err := body(got)
	theirs, theirErr := body(want)
	if fmt.Sprint(err) != fmt.Sprint(theirErr) { // as of a watch that has sent nothing
		return fmt.Sprintf("%v, want %v", err, theirErr)
	}
	if got.Code == want.Code && (bytes.Equal(ours, theirs) || equalCBOR(ours, theirs)) {
		for _, h := range []string{"Content-Type", "Content-Encoding", "Vary", "Warning"} {
			if got, want := got.Header()[h], want.Header()[h]; !slices.Equal(got, want) {
				return fmt.Sprintf("%s is %q, want %q", h, got, want)
			}
		}
		return ""
	}
	at := 0
	for at < min(len(ours), len(theirs)) && ours[at] == theirs[at] {
		at++
	}
	at = max(0, at-200)
	return fmt.Sprintf("%d, from byte %d\n%.3000q\nwant %d\n%.3000q", got.Code, at, ours[min(at, len(ours)):], want.Code, theirs[min(at, len(theirs)):])
}

// equalCBOR reports whether two documents in CBOR are equal but for the order of the keys, which encoders choose at random.
func equalCBOR(ours, theirs []byte) bool {
	var got, want any
	return bytes.HasPrefix(ours, cborPrefix) && direct.Unmarshal(ours, &got) == nil && direct.Unmarshal(theirs, &want) == nil &&
		reflect.DeepEqual(got, want)
}

// cborPrefix is the tag that begins a document in CBOR.
var cborPrefix = []byte{0xd9, 0xd9, 0xf7}

// body returns the body of a response.
func body(w *httptest.ResponseRecorder) ([]byte, error) {
	if w.Header().Get("Content-Encoding") != "gzip" {
		return w.Body.Bytes(), nil
	}
	r, err := gzip.NewReader(bytes.NewReader(w.Body.Bytes()))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}
