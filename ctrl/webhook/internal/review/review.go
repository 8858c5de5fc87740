// Package review reads and writes the reviews that the API server exchanges with webhooks: JSON
// documents that come as the body of a request, and go back in the version that was asked for.
//
// A review and an object of the expected kind are decoded in one pass, and other objects by apimachinery's codecs. Fuzz
// tests compare the two. A patch is made by comparing the texts, so only different parts are decoded. Fuzz tests
// compare it with the patch of the jsonpatch library.
package review

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

const contentType = "application/json"

// ErrEmpty is the error of a request without a body.
var ErrEmpty = errors.New("request body is empty")

// TooLargeError is the error of a request with a body of at least that many bytes.
type TooLargeError int64

func (limit TooLargeError) Error() string {
	return fmt.Sprintf("request entity is too large; limit is %d bytes", int64(limit))
}

// Reader reads reviews of one kind from requests. It is safe for concurrent use.
type Reader struct {
	preferred schema.GroupVersionKind
	known     []schema.GroupVersionKind
	universal runtime.Decoder
	limit     int64
}

// NewReader returns a reader of the kind in scheme. The versions must have the same fields. A review
// without a version is of the first one. The limit is in bytes; a body must be shorter.
func NewReader(scheme *runtime.Scheme, limit int64, kind string, versions ...schema.GroupVersion) *Reader {
	r := &Reader{universal: serializer.NewCodecFactory(scheme).UniversalDeserializer(), limit: limit}
	for _, v := range versions {
		r.known = append(r.known, v.WithKind(kind))
	}
	r.preferred = r.known[0]
	return r
}

// Read decodes the body of req into review, closes it, and returns the version that the response
// should have. The type of review must not be registered in the scheme: the decoder would insist on
// the version of a registered type. The error is for the client; a body that is too large is a
// [TooLargeError].
func (r *Reader) Read(req *http.Request, review runtime.Object) (schema.GroupVersionKind, error) {
	if req.Body == nil || req.Body == http.NoBody {
		return r.preferred, ErrEmpty
	}
	defer req.Body.Close()
	body := buffers.Get().(*bytes.Buffer)
	defer release(body)
	if n := req.ContentLength; n > 0 {
		body.Grow(int(min(n, maxPreallocated)) + bytes.MinRead)
	}
	if _, err := body.ReadFrom(io.LimitReader(req.Body, r.limit)); err != nil {
		return r.preferred, err
	}
	if int64(body.Len()) >= r.limit {
		return r.preferred, TooLargeError(r.limit)
	}
	if actual := req.Header.Get("Content-Type"); actual != contentType {
		return r.preferred, fmt.Errorf("contentType=%s, expected %s", actual, contentType)
	}
	return r.decode(body.Bytes(), review)
}

// decode decodes data in one pass if it is JSON of a known kind, and otherwise as the API machinery
// does, which tries other formats and has the customary errors.
func (r *Reader) decode(data []byte, review runtime.Object) (schema.GroupVersionKind, error) {
	kind := review.GetObjectKind()
	if utiljson.Unmarshal(data, review) == nil {
		if gvk := kind.GroupVersionKind(); slices.Contains(r.known, gvk) {
			return gvk, nil
		}
	}
	kind.SetGroupVersionKind(r.preferred)
	_, gvk, err := r.universal.Decode(data, nil, review)
	if err != nil || gvk == nil || gvk.Empty() {
		return r.preferred, err
	}
	return *gvk, nil
}

// Write sends review. Encoding errors are returned as an EncodeError; then nothing was written.
func Write(w http.ResponseWriter, review any) error {
	body := buffers.Get().(*bytes.Buffer)
	defer release(body)
	if err := json.NewEncoder(body).Encode(review); err != nil {
		return EncodeError{err}
	}
	w.Header().Set("Content-Type", contentType)
	_, err := w.Write(body.Bytes())
	return err
}

// EncodeError is the error of a review that cannot be encoded.
type EncodeError struct{ error }

// Unwrap returns the cause.
func (e EncodeError) Unwrap() error { return e.error }

const (
	maxPreallocated = 512 << 10 // of a body before it has arrived: the Content-Length may be false
	maxPooled       = 1 << 20   // larger buffers are not reused
)

var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

func release(b *bytes.Buffer) {
	if b.Cap() <= maxPooled {
		b.Reset()
		buffers.Put(b)
	}
}
