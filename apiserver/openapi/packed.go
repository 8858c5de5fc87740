package openapi

import (
	"bytes"

	"github.com/klauspost/compress/s2"
)

// packed is a compressed text. Documents of hundreds of custom resources have tens of megabytes, which are read rarely, and consist of
// the same words.
type packed []byte

func pack(text []byte) packed { return bytes.Clone(s2.EncodeBetter(nil, text)) } // without the room for an incompressible text

func (p packed) unpack() ([]byte, error) { return s2.Decode(nil, p) }

// convert returns the text in another encoding.
func (p packed) convert(to func([]byte) ([]byte, error)) (packed, error) {
	text, err := p.unpack()
	if err != nil {
		return nil, err
	}
	if text, err = to(text); err != nil {
		return nil, err
	}
	return pack(text), nil
}

// size returns the length of the text.
func (p packed) size() int {
	n, err := s2.DecodedLen(p)
	if err != nil {
		return 0
	}
	return n
}
