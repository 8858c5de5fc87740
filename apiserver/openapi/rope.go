package openapi

import (
	"bytes"
	"errors"
	"io"
	"slices"

	"flyball.dev/internal/packed"
)

// rope is a document as compressed texts that follow one another. The document of version 2 of hundreds of custom resources has tens of
// megabytes. Its rope shares the texts of their parts, and a reader has one text at a time.
type rope []packed.Text

// textSize is the size of the texts that a document is cut into.
const textSize = 128 << 10

// ropeOf returns the rope of a document.
func ropeOf(document []byte) (r rope) {
	for text := range slices.Chunk(document, textSize) {
		r = append(r, packed.Pack(text))
	}
	return r
}

func (r rope) size() (n int64) {
	for _, text := range r {
		n += int64(text.Size())
	}
	return n
}

// bytes returns the document.
func (r rope) bytes() []byte {
	out := make([]byte, 0, r.size())
	for _, text := range r {
		out = append(out, text.Unpack()...)
	}
	return out
}

// ropeReader reads a rope.
type ropeReader struct {
	rope       rope
	at         int64
	next       int   // the text after the current one
	start, end int64 // of the current text in the document
	text       []byte
}

// Read implements [io.Reader].
func (r *ropeReader) Read(out []byte) (int, error) {
	if r.at < r.start {
		r.next, r.start, r.end, r.text = 0, 0, 0, nil
	}
	for r.at >= r.end {
		if r.next == len(r.rope) {
			return 0, io.EOF
		}
		r.start, r.end, r.text = r.end, r.end+int64(r.rope[r.next].Size()), nil
		r.next++
	}
	if r.text == nil {
		r.text = r.rope[r.next-1].Unpack()
	}
	n := copy(out, r.text[r.at-r.start:])
	r.at += int64(n)
	return n, nil
}

// Seek implements [io.Seeker].
func (r *ropeReader) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += r.at
	case io.SeekEnd:
		offset += r.rope.size()
	}
	if offset < 0 {
		return 0, errors.New("offset before the start of the document")
	}
	r.at = offset
	return offset, nil
}

// ropeWriter makes a rope of bytes and of texts that are compressed already.
type ropeWriter struct {
	bytes.Buffer // what is not in the rope yet
	rope         rope
}

// writeText adds a text.
func (w *ropeWriter) writeText(t packed.Text) { w.rope = append(w.finish(), t) }

// finish returns the rope.
func (w *ropeWriter) finish() rope {
	if w.Len() > 0 {
		w.rope = append(w.rope, ropeOf(w.Bytes())...)
		w.Reset()
	}
	return w.rope
}
