package endpoints

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// bufferRecorder is a reader that records the largest excess of a buffer over the data returned so far.
type bufferRecorder struct {
	from            io.Reader
	delivered, most int
}

func (r *bufferRecorder) Read(p []byte) (int, error) {
	r.most = max(r.most, len(p)-r.delivered)
	n, err := r.from.Read(p)
	r.delivered += n
	return n, err
}

func TestReadBody(t *testing.T) {
	const limit = 3 << 20
	for _, size := range []int{0, 1, 100, initialBuffer - 1, initialBuffer, initialBuffer + 1, 100_000, limit} {
		want := bytes.Repeat([]byte("x"), size)
		for _, announced := range []int{size, -1} {
			r, err := http.NewRequest(http.MethodPost, "/", io.NopCloser(iotest.HalfReader(bytes.NewReader(want))))
			if err != nil {
				t.Fatal(err)
			}
			r.ContentLength = int64(announced)
			if err := readBody(r, limit); err != nil {
				t.Fatalf("%d bytes, announced %d: %v", size, announced, err)
			}
			if got := r.Body.(*bufferedBody).bytes; !bytes.Equal(got, want) {
				t.Errorf("%d bytes were read of %d", len(got), size)
			}
			if got, err := io.ReadAll(r.Body); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%d bytes were left, %v; want %d", len(got), err, size)
			}
		}
	}
}

// TestBufferGrowsWithTheBody announces a large body and sends a small one.
func TestBufferGrowsWithTheBody(t *testing.T) {
	body := &bufferRecorder{from: io.MultiReader(strings.NewReader(strings.Repeat("x", 100_000)), iotest.ErrReader(io.ErrUnexpectedEOF))}
	if _, err := readAll(body, 3<<20, 3<<20); err != io.ErrUnexpectedEOF {
		t.Errorf("it ended with %v", err)
	}
	if body.most > 2*initialBuffer {
		t.Errorf("there was room for %d bytes more than had arrived", body.most)
	}
}

func TestBodyTooLarge(t *testing.T) {
	for _, tc := range []struct {
		name      string
		announced int64
		body      io.Reader
	}{
		{"announced", 11, iotest.ErrReader(errors.New("it was read"))},
		{"not announced", -1, strings.NewReader("12345678901")},
		{"announced wrongly", 3, strings.NewReader("12345678901")},
	} {
		r, err := http.NewRequest(http.MethodPost, "/", io.NopCloser(tc.body))
		if err != nil {
			t.Fatal(err)
		}
		r.ContentLength = tc.announced
		if err := readBody(r, 10); !apierrors.IsRequestEntityTooLargeError(err) || !strings.Contains(err.Error(), "limit is 10") {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
}
