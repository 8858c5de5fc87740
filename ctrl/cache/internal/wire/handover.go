package wire

import (
	"io"

	"k8s.io/apimachinery/pkg/runtime"
)

// handover takes the bodies of watches out of the hands of rest.Request.Watch,
// which does all that belongs to opening one: retries, errors, warnings, what is
// measured. It asks a framer to make frames of a body; this one keeps the body
// and makes none, so that for client-go the watch has ended.
type handover struct {
	runtime.NegotiatedSerializer
	client *Client
}

// SupportedMediaTypes implements runtime.NegotiatedSerializer.
func (h handover) SupportedMediaTypes() []runtime.SerializerInfo {
	infos := make([]runtime.SerializerInfo, len(h.client.encodings))
	for i, e := range h.client.encodings {
		stream := *e.info.StreamSerializer
		stream.Framer = taker{stream.Framer, h.client, e}
		infos[i] = e.info
		infos[i].StreamSerializer = &stream
	}
	return infos
}

// taker is the framer that keeps the body.
type taker struct {
	runtime.Framer
	client   *Client
	encoding *encoding
}

// NewFrameReader implements runtime.Framer.
func (t taker) NewFrameReader(body io.ReadCloser) io.ReadCloser {
	if t.client.opened == nil {
		return t.Framer.NewFrameReader(body)
	}
	*t.client.opened = answer{body, t.encoding}
	return ended{}
}

// ended is a body with nothing in it.
type ended struct{}

func (ended) Read([]byte) (int, error) { return 0, io.EOF }
func (ended) Close() error             { return nil }
