// Package review reads and writes the reviews that the API server exchanges with webhooks: JSON
// documents that come as the body of a request, and go back in the version that was asked for.
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

// Codec decodes reviews of one kind.
type Codec struct {
	preferred schema.GroupVersionKind
	known     []schema.GroupVersionKind
	universal runtime.Decoder
	limit     int64
}

// NewCodec returns a codec of the kind in scheme, whose versions have the same fields. A review
// that has no version is one of the first. The limit is in bytes; a body must be shorter.
func NewCodec(scheme *runtime.Scheme, limit int64, kind string, versions ...schema.GroupVersion) *Codec {
	c := &Codec{universal: serializer.NewCodecFactory(scheme).UniversalDeserializer(), limit: limit}
	for _, v := range versions {
		c.known = append(c.known, v.WithKind(kind))
	}
	c.preferred = c.known[0]
	return c
}

// Read decodes the body of r into review and returns the version that the answer should have. The
// type of review must not be registered in the scheme, so that it takes any version. The error is
// for the client.
func (c *Codec) Read(r *http.Request, review runtime.Object) (schema.GroupVersionKind, error) {
	if r.Body == nil || r.Body == http.NoBody {
		return c.preferred, ErrEmpty
	}
	defer r.Body.Close()
	body := buffers.Get().(*bytes.Buffer)
	defer release(body)
	if n := r.ContentLength; n > 0 {
		body.Grow(int(min(n, presized)) + bytes.MinRead)
	}
	if _, err := body.ReadFrom(io.LimitReader(r.Body, c.limit)); err != nil {
		return c.preferred, err
	}
	if int64(body.Len()) >= c.limit {
		return c.preferred, TooLargeError(c.limit)
	}
	if actual := r.Header.Get("Content-Type"); actual != contentType {
		return c.preferred, fmt.Errorf("contentType=%s, expected %s", actual, contentType)
	}
	return c.decode(body.Bytes(), review)
}

// decode decodes data in one pass if it is JSON of a known kind, and otherwise as the API machinery
// does, which tries other formats and has the customary errors.
func (c *Codec) decode(data []byte, review runtime.Object) (schema.GroupVersionKind, error) {
	kind := review.GetObjectKind()
	if utiljson.Unmarshal(data, review) == nil {
		if gvk := kind.GroupVersionKind(); slices.Contains(c.known, gvk) {
			return gvk, nil
		}
	}
	kind.SetGroupVersionKind(c.preferred)
	_, gvk, err := c.universal.Decode(data, nil, review)
	if err != nil || gvk == nil || gvk.Empty() {
		return c.preferred, err
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
	presized = 512 << 10 // what is allocated for a body before it has arrived, at most
	retained = 1 << 20   // larger buffers are not reused
)

var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

func release(b *bytes.Buffer) {
	if b.Cap() <= retained {
		b.Reset()
		buffers.Put(b)
	}
}
