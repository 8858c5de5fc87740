// Package packed compresses texts that are kept for long and read rarely, such as schemas.
package packed

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"fmt"
	"io"
	"strings"
	"sync"
)

// Text is a compressed text. Equal texts are compressed equally.
type Text string

// writers and readers have compressors, each of more than half a megabyte, and decompressors of 40 KiB.
var (
	writers = sync.Pool{New: func() any {
		w, err := flate.NewWriter(nil, flate.BestSpeed)
		if err != nil {
			panic(err) // of an unknown level
		}
		return w
	}}
	readers = sync.Pool{New: func() any { return flate.NewReader(nil) }}
)

// Pack compresses a text.
func Pack(text []byte) Text {
	var out bytes.Buffer
	out.Write(binary.AppendUvarint(nil, uint64(len(text))))
	w := writers.Get().(*flate.Writer)
	defer writers.Put(w)
	w.Reset(&out)
	w.Write(text) // a buffer never fails
	w.Close()
	return Text(out.String())
}

// Size returns the length of the text.
func (t Text) Size() int {
	size, _ := t.size()
	return size
}

// size returns the length of the text, and the number of bytes that it takes.
func (t Text) size() (size, n int) {
	u, n := binary.Uvarint([]byte(t[:min(len(t), binary.MaxVarintLen64)]))
	return int(u), n
}

// Unpack returns the text.
func (t Text) Unpack() []byte {
	size, n := t.size()
	text := make([]byte, size)
	r := readers.Get().(io.Reader)
	defer readers.Put(r)
	err := r.(flate.Resetter).Reset(strings.NewReader(string(t[n:])), nil)
	if err == nil {
		_, err = io.ReadFull(r, text)
	}
	if err != nil {
		panic(fmt.Sprintf("packed: %v", err)) // Pack has made it
	}
	return text
}
