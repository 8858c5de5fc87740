package wire

import (
	"io"

	"k8s.io/apimachinery/pkg/runtime"
)

// captureSerializer takes the body of one watch from rest.Request.Watch, which does everything that
// opening a watch involves: retries, errors, warnings, metrics. client-go asks the framer of the
// negotiated serializer to frame the body; this framer keeps the body and returns an empty one, so
// that the watch has ended as far as client-go is concerned.
type captureSerializer struct {
	runtime.NegotiatedSerializer
	encodings []*encoding
	captured  watchBody
}

// watchBody is the body of a watch response and how it is encoded.
type watchBody struct {
	io.ReadCloser
	encoding *encoding
}

// SupportedMediaTypes implements runtime.NegotiatedSerializer.
func (s *captureSerializer) SupportedMediaTypes() []runtime.SerializerInfo {
	infos := make([]runtime.SerializerInfo, len(s.encodings))
	for i, e := range s.encodings {
		stream := *e.info.StreamSerializer
		stream.Framer = captureFramer{stream.Framer, s, e}
		infos[i] = e.info
		infos[i].StreamSerializer = &stream
	}
	return infos
}

// captureFramer is the framer of one encoding that keeps the body.
type captureFramer struct {
	runtime.Framer
	serializer *captureSerializer
	encoding   *encoding
}

// NewFrameReader implements runtime.Framer.
func (f captureFramer) NewFrameReader(body io.ReadCloser) io.ReadCloser {
	f.serializer.captured = watchBody{body, f.encoding}
	return emptyBody{}
}

// emptyBody is a body without content.
type emptyBody struct{}

func (emptyBody) Read([]byte) (int, error) { return 0, io.EOF }
func (emptyBody) Close() error             { return nil }
