package endpoints

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/api/errors"
)

// initialBuffer is the size of the buffer for a body of unknown or larger size.
const initialBuffer = 16 << 10

// bufferedBody is a request body in memory. checkDocument has accepted it.
type bufferedBody struct {
	bytes.Reader
	bytes []byte
}

func (*bufferedBody) Close() error { return nil }

// readBody reads the body of a request, at most limit bytes unless limit is zero, and replaces the body by a
// [bufferedBody]. It allocates memory for the received bytes, not for the announced Content-Length.
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
		// JSON decoders replace invalid UTF-8 as well, but not in parts that are stored verbatim and could then not be
		// read as YAML.
		data = bytes.ToValidUTF8(data, []byte("\uFFFD"))
	}
	body := &bufferedBody{bytes: data}
	body.Reset(data)
	r.Body = body
	return nil
}

// readAll reads to the end. Its buffer is at most twice the size of the data received, or initialBuffer.
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
