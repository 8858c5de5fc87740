package openapi

import (
	"bytes"
	"errors"
	"io"

	"flyball.dev/internal/packed"
)

// rope is a document as compressed texts that follow one another. The document of version 2 of hundreds of custom resources has tens of
// megabytes. Its rope shares the texts of their parts, and a reader has one text at a time.
type rope []packed.Text

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
	rope  rope
	at    int64
	next  int    // the text after current
	start int64  // of current in the document
	text  []byte // current
}

// Read implements [io.Reader].
func (r *ropeReader) Read(out []byte) (int, error) {
	if r.at < r.start {
		r.next, r.start, r.text = 0, 0, nil
	}
	for r.at >= r.start+int64(len(r.text)) {
		if r.next == len(r.rope) {
			return 0, io.EOF
		}
		r.start += int64(len(r.text))
		r.text, r.next = r.rope[r.next].Unpack(), r.next+1
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
		w.rope = append(w.rope, packed.Pack(w.Bytes()))
		w.Reset()
	}
	return w.rope
}
