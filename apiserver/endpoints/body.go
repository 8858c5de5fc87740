package endpoints

import (
	"bytes"
	"fmt"
	"io"
	"net/http"

	"k8s.io/apimachinery/pkg/api/errors"
)

// firstRead is how much of a body is made room for before any of it has arrived.
const firstRead = 16 << 10

// wholeBody is a request's body that is in memory and not nested too deep.
type wholeBody struct {
	bytes.Reader
	bytes []byte
}

func (*wholeBody) Close() error { return nil }

// readBody reads the body of a request, which is at most limit bytes long unless that is zero, and puts
// it in the request's place. The memory for it grows with what arrives, whatever length was announced.
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
	if tooDeep(r.Header.Get("Content-Type"), data) {
		return errors.NewBadRequest(fmt.Sprintf("the request body is nested more than %d levels deep", maxDepth))
	}
	body := &wholeBody{bytes: data}
	body.Reset(data)
	r.Body = body
	return nil
}

func readAll(r io.Reader, announced, limit int64) ([]byte, error) {
	if announced < 0 || announced > firstRead {
		announced = firstRead
	}
	data := make([]byte, 0, announced+1) // one more, for the read that finds the end
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
