package endpoints

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/api/errors"
)

// initialBuffer is the size of the buffer for a body if its length is unknown or larger.
const initialBuffer = 16 << 10

// bufferedBody is a request's body in memory, which checkDocument accepts.
type bufferedBody struct {
	bytes.Reader
	bytes []byte
}

func (*bufferedBody) Close() error { return nil }

// readBody reads the body of a request, of at most limit bytes unless that is zero, and replaces it
// by a [bufferedBody]. Memory for it grows with what arrives, whatever Content-Length announces.
//
//upstream:k8s.io/apiserver/pkg/endpoints/handlers.limitedReadBody
func readBody(r *http.Request, limit int64) error {
	if r.Body == nil {
		r.Body = http.NoBody
	}
	defer r.Body.Close()
	if limit > 0 && r.ContentLength > limit {
		return tooLarge(limit)
	}
	data, err := readAll(r.Body, r.ContentLength, limit)
	if err != nil {
		return err
	}
	if err := checkDocument(r.Header.Get("Content-Type"), data, limit); err != nil {
		return err
	}
	if isJSON(r.Header.Get("Content-Type")) && !utf8.Valid(data) {
		// Decoders of JSON do so too, but not in what is stored as it is, which could not be read as YAML.
		data = bytes.ToValidUTF8(data, []byte("\uFFFD"))
	}
	body := &bufferedBody{bytes: data}
	body.Reset(data)
	r.Body = body
	return nil
}

// readAll reads to the end. Its buffer is at most twice the size of what has arrived, or
// initialBuffer.
func readAll(r io.Reader, announced, limit int64) ([]byte, error) {
	if announced < 0 || announced > initialBuffer {
		announced = initialBuffer
	}
	data := make([]byte, 0, announced+1) // one more, for the read that returns io.EOF
	for {
		n, err := r.Read(data[len(data):cap(data)])
		data = data[:len(data)+n]
		switch {
		case limit > 0 && int64(len(data)) > limit:
			return nil, tooLarge(limit)
		case err == io.EOF:
			return data, nil
		case err != nil:
			return nil, err
		case len(data) == cap(data):
			grown := make([]byte, len(data), 2*cap(data))
			copy(grown, data)
			data = grown
		}
	}
}

func tooLarge(limit int64) error {
	return errors.NewRequestEntityTooLargeError(fmt.Sprintf("limit is %d", limit))
}
