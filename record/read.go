package record

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"iter"
	"time"

	"github.com/klauspost/compress/zstd"
)

// Reader reads a recording. Only one goroutine may use it.
type Reader struct {
	Header    Header
	source    *source
	zstd      *zstd.Decoder
	in        *bufio.Reader
	last      time.Time
	resources []*Resource
	entries   int
	ended     bool
	err       error // the error of Next from now on
}

// NewReader reads the beginning of a recording. The caller must close the reader.
//
// Possible errors: ErrForeign, ErrFormat, ErrCut, a *DamageError, the error of r.
func NewReader(r io.Reader) (*Reader, error) {
	start := make([]byte, len(magic))
	switch _, err := io.ReadFull(r, start); {
	case err == io.EOF, errors.Is(err, io.ErrUnexpectedEOF):
		return nil, ErrForeign
	case err != nil:
		return nil, err
	case string(start[:len(magic)-2]) != magic[:len(magic)-2]:
		return nil, ErrForeign
	case string(start) != magic:
		return nil, ErrFormat
	}
	from := &source{r: r}
	decoder, err := zstd.NewReader(from, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(2*window))
	if err != nil {
		return nil, err
	}
	reader := &Reader{source: from, zstd: decoder, in: bufio.NewReaderSize(decoder, 64<<10)}
	payload, err := reader.payload()
	if err == nil {
		if err = json.Unmarshal(payload, &reader.Header); err != nil {
			err = &DamageError{Err: err}
		}
	}
	if err != nil {
		decoder.Close()
		return nil, err
	}
	reader.last = reader.Header.Began
	return reader, nil
}

// Close releases the memory of the reader.
func (r *Reader) Close() { r.zstd.Close() }

// Next returns the next entry, and io.EOF after the last one of a recording with an end.
//
// Possible errors: io.EOF, ErrCut, a *DamageError, the error of the reader below. The same error follows an error.
func (r *Reader) Next() (Entry, error) {
	if r.err != nil {
		return Entry{}, r.err
	}
	if r.ended {
		r.err = io.EOF
		return Entry{}, r.err
	}
	payload, err := r.payload()
	var e Entry
	if err == nil {
		if e, err = r.decode(payload); err != nil {
			err = &DamageError{After: r.entries, Err: err}
		}
	}
	if err != nil {
		r.err = err
		return Entry{}, err
	}
	r.entries++
	r.ended = e.Type == Ended
	return e, nil
}

// All returns the entries. The last pair has an error, unless the recording has an end.
func (r *Reader) All() iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		for {
			e, err := r.Next()
			if err == io.EOF || !yield(e, err) || err != nil {
				return
			}
		}
	}
}

// payload reads the next payload.
func (r *Reader) payload() ([]byte, error) {
	size, err := binary.ReadUvarint(r.in)
	if err != nil {
		return nil, r.explain(err)
	}
	if size > maxEntry {
		return nil, &DamageError{r.entries, fmt.Errorf("an entry of %d bytes", size)}
	}
	var sum [4]byte
	if _, err := io.ReadFull(r.in, sum[:]); err != nil {
		return nil, r.explain(err)
	}
	payload, err := readN(r.in, int(size))
	if err != nil {
		return nil, r.explain(err)
	}
	if crc32.Checksum(payload, castagnoli) != binary.LittleEndian.Uint32(sum[:]) {
		return nil, &DamageError{r.entries, errors.New("wrong checksum")}
	}
	return payload, nil
}

// readN reads n bytes. The memory grows with the bytes that were read, since n may be wrong.
func readN(r io.Reader, n int) ([]byte, error) {
	const step = 1 << 20
	payload := make([]byte, 0, min(n, step))
	for len(payload) < n {
		start := len(payload)
		payload = append(payload, make([]byte, min(n-start, step))...)
		if _, err := io.ReadFull(r, payload[start:]); err != nil {
			return nil, err
		}
	}
	return payload, nil
}

// explain returns the error of Next for an error of the decoder.
func (r *Reader) explain(err error) error {
	switch {
	case r.source.err != nil:
		return r.source.err
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return ErrCut
	}
	return &DamageError{r.entries, err}
}

// source keeps the error of a reader, except for its end.
type source struct {
	r   io.Reader
	err error
}

func (s *source) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	if err != nil && err != io.EOF {
		s.err = err
	}
	return n, err
}

// errShort means that a payload ends too early.
var errShort = errors.New("an entry that is too short")

// decode decodes a payload, which the entry keeps.
func (r *Reader) decode(payload []byte) (Entry, error) {
	if len(payload) == 0 {
		return Entry{}, errShort
	}
	e := Entry{Type: Type(payload[0])}
	if e.Type < Served || e.Type > Ended {
		return Entry{}, fmt.Errorf("an entry of the unknown type %d", payload[0])
	}
	d := fields{rest: payload[1:]}
	r.last = r.last.Add(time.Duration(d.number()) * time.Microsecond)
	e.Time = r.last
	number := d.number()
	if number > uint64(len(r.resources)+1) {
		return Entry{}, fmt.Errorf("an entry of the unknown resource %d", number)
	}
	if number == uint64(len(r.resources)+1) {
		described := &Resource{}
		if err := json.Unmarshal(d.bytes(), described); err != nil {
			return Entry{}, fmt.Errorf("the description of a resource: %w", err)
		}
		r.resources = append(r.resources, described)
	}
	switch {
	case number > 0:
		e.Resource = r.resources[number-1]
	case e.Type != Ended:
		return Entry{}, fmt.Errorf("an entry %q without a resource", e.Type)
	}
	e.Namespace, e.Name, e.Text = string(d.bytes()), string(d.bytes()), string(d.bytes())
	if d.err != nil {
		return Entry{}, d.err
	}
	if len(d.rest) > 0 {
		e.Object = d.rest
	}
	return e, nil
}

// fields reads the fields of a payload.
type fields struct {
	rest []byte
	err  error
}

func (f *fields) number() uint64 {
	n, size := binary.Uvarint(f.rest)
	if size <= 0 {
		f.rest, f.err = nil, errShort
		return 0
	}
	f.rest = f.rest[size:]
	return n
}

func (f *fields) bytes() []byte {
	n := f.number()
	if n > uint64(len(f.rest)) {
		f.rest, f.err = nil, errShort
		return nil
	}
	b := f.rest[:n]
	f.rest = f.rest[n:]
	return b
}
