// Package snapshot reads and writes snapshots: the records of a store at one revision, as a sequence of frames with
// checksums. A snapshot in a data directory and a file of flyball snapshot have the same format.
//
// A store that is made from a snapshot begins a million revisions later, and has compacted all before. A snapshot is
// written from the immutable records of one range, so no writer waits.
package snapshot

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"syscall"
	"time"

	"flyball.dev/storage"
	"flyball.dev/storage/internal/frame"
)

var (
	// ErrForeign means that a file does not begin like a snapshot.
	ErrForeign = errors.New("not a snapshot")
	// ErrFormat means that a newer version has written the file.
	ErrFormat = frame.ErrFormat
)

// DamageError means that a file does not have what was written to it.
type DamageError struct {
	File     string // its name in the directory, or its path
	Position int64  // where the first frame is that is wrong
	Err      error
}

func (e *DamageError) Error() string {
	return fmt.Sprintf("%s is damaged at byte %d: %v", e.File, e.Position, e.Err)
}

func (e *DamageError) Unwrap() error { return e.Err }

// Describe adds the name of a file to an error of [Read].
func Describe(file string, err error) error {
	if err == nil {
		return nil
	}
	if damage, ok := errors.AsType[*DamageError](err); ok {
		damage.File = file
		return err
	}
	return fmt.Errorf("%s: %w", file, err)
}

// Format is the version of the format.
const Format = frame.Format

// revisionsSkipped are the revisions between a snapshot and the store that is made from it. The store from which the
// snapshot was taken has probably gone on, and its clients know revisions that the snapshot does not have.
const revisionsSkipped = 1_000_000

// maxRevision leaves room for the revisions after it.
const maxRevision = math.MaxInt64 / 2

// Next returns the revision of a store that is made from the records of a revision. Earlier revisions are compacted in
// it, so no client takes a write for another one of the same revision, and all watches begin anew.
func Next(revision uint64) uint64 { return revision + revisionsSkipped }

// Header describes a snapshot.
type Header struct {
	// Revision is the revision at which the records were read.
	Revision uint64
	// Taken is when the records were read, by the clock that says when they expire; zero if the snapshot does not say it.
	Taken time.Time
}

// The first byte of a payload says what the rest is.
const (
	kindHeader  = 'S' // the first frame: the format, the revision, the time in nanoseconds since 1970 or zero
	kindLeased  = 'L' // the keys and leases of records with a lease; these frames are before the frames of records
	kindRecords = 'R' // records
	kindEnd     = 'E' // the last frame: the number of records
)

// frameOfRecords is about how many bytes of records a frame has.
const frameOfRecords = 256 << 10

// Write writes a snapshot of records, which are in the order of their keys. It calls w.Write once for each frame.
func Write(w io.Writer, h Header, records []*storage.Record) error {
	var taken uint64
	if !h.Taken.IsZero() {
		taken = uint64(h.Taken.UnixNano())
	}
	f := writer{w: w}
	f.frame(func(buf []byte) []byte { return frame.AppendNumbers(buf, kindHeader, Format, h.Revision, taken) })
	f.frames(kindLeased, leased(records), appendLeased)
	clock := h.Taken
	if clock.IsZero() {
		clock = time.Now()
	}
	f.frames(kindRecords, records, func(buf []byte, r *storage.Record) []byte { return appendRecord(buf, r, clock) })
	f.frame(func(buf []byte) []byte { return frame.AppendNumbers(buf, kindEnd, uint64(len(records))) })
	return f.err
}

// writer writes frames one after the other.
type writer struct {
	w        io.Writer
	position int64
	buf      []byte
	err      error
}

func (w *writer) frame(payload func([]byte) []byte) {
	if w.err != nil {
		return
	}
	w.buf = frame.Append(w.buf[:0], w.position, payload)
	for int64(len(w.buf)) != frame.Align(int64(len(w.buf))) {
		w.buf = append(w.buf, 0)
	}
	_, w.err = w.w.Write(w.buf)
	w.position += int64(len(w.buf))
}

// frames writes frames with records.
func (w *writer) frames(kind byte, records []*storage.Record, add func([]byte, *storage.Record) []byte) {
	for rest := records; len(rest) > 0 && w.err == nil; {
		n := 0
		w.frame(func(buf []byte) []byte {
			start := len(buf)
			for buf = append(buf, kind); n < len(rest) && len(buf)-start < frameOfRecords; n++ {
				buf = add(buf, rest[n])
			}
			return buf
		})
		rest = rest[n:]
	}
}

// leased returns the records with a lease.
func leased(records []*storage.Record) (found []*storage.Record) {
	for _, r := range records {
		if r.Lease != 0 {
			found = append(found, r)
		}
	}
	return found
}

// appendLeased appends the key and the lease of a record.
func appendLeased(buf []byte, r *storage.Record) []byte {
	return binary.AppendVarint(frame.AppendString(buf, r.Key), r.Lease)
}

// appendRecord appends a record.
func appendRecord(buf []byte, r *storage.Record, clock time.Time) []byte {
	buf = frame.AppendString(buf, r.Key)
	buf = binary.AppendUvarint(buf, r.Created)
	buf = binary.AppendUvarint(buf, r.Revision)
	buf = binary.AppendUvarint(buf, r.Version)
	buf = frame.AppendExpiry(buf, r.Expires, clock)
	return frame.AppendString(buf, r.Value())
}

// Open opens a file for [Read]. The file may be a pipe: Open does not wait for a writer, as os.Open does, and a pipe that
// nobody writes to reads as empty.
func Open(file string) (*os.File, error) {
	return os.OpenFile(file, os.O_RDONLY|syscall.O_NONBLOCK, 0)
}

// Read reads a snapshot to its end, and calls f with each record and its value. The values belong to f. Whatever f has
// got is worth nothing if Read returns an error.
//
// Possible errors: ErrForeign, ErrFormat, a *DamageError without a name, the error of r.
func Read(r io.Reader, f func(storage.Record, []byte)) (Header, error) {
	source := &source{r: r}
	frames := frame.NewReader(source)
	h, err := readHeader(frames)
	if err == nil {
		err = h.readRecords(frames, f)
	}
	switch {
	case err == nil:
		return h, nil
	case source.err != nil:
		return Header{}, source.err
	case errors.Is(err, ErrForeign), errors.Is(err, ErrFormat):
		return Header{}, err
	}
	return Header{}, &DamageError{Position: frames.Position(), Err: err}
}

// source keeps the error of a reader.
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

func readHeader(frames *frame.Reader) (Header, error) {
	payload, err := frames.Next()
	if err != nil {
		return Header{}, fmt.Errorf("%w, or damaged at the beginning", ErrForeign)
	}
	revision, taken, err := (&frame.Decoder{Data: payload}).Head(kindHeader)
	h := Header{Revision: revision}
	switch {
	case errors.Is(err, ErrFormat):
		return h, err
	case err != nil || revision < storage.First || revision > maxRevision:
		return h, ErrForeign
	case taken > 0 && taken <= math.MaxInt64:
		h.Taken = time.Unix(0, int64(taken))
	}
	return h, nil
}

var (
	errLength = errors.New("it does not end where it should")
	errRecord = errors.New("a record is invalid")
)

// readRecords reads the frames after the first.
func (h *Header) readRecords(frames *frame.Reader, f func(storage.Record, []byte)) error {
	var last string
	var invalid bool
	leases := map[string]int64{}
	check := func(r storage.Record, value []byte) {
		invalid = invalid || r.Key <= last || storage.CheckKey(r.Key) != nil || r.Created < storage.First || r.Created > r.Revision || r.Revision > h.Revision
		last = r.Key
		r.Lease = leases[r.Key]
		if !invalid {
			f(r, value)
		}
	}
	for n := uint64(0); ; {
		payload, err := frames.Next()
		switch {
		case err == io.EOF:
			return io.ErrUnexpectedEOF
		case err != nil:
			return err
		}
		d := &frame.Decoder{Data: payload}
		switch d.Byte() {
		case kindLeased:
			for d.Err == nil && len(d.Data) > 0 {
				leases[string(d.Bytes())] = d.Int()
			}
		case kindRecords:
			n += decodeRecords(d, check)
		case kindEnd:
			if count := d.Uint(); d.Err == nil && count != n {
				return fmt.Errorf("it has %d records of %d", n, count)
			}
			if len(d.Data) > 0 {
				d.Fail()
			}
			if _, err := frames.Next(); d.Err == nil && err != io.EOF {
				return errLength
			}
			return d.Err
		default:
			d.Fail()
		}
		switch {
		case d.Err != nil:
			return d.Err
		case invalid:
			return errRecord
		}
	}
}

// decodeRecords reads the rest of a frame of records, calls f with each, and returns how many there are.
func decodeRecords(d *frame.Decoder, f func(storage.Record, []byte)) (n uint64) {
	for ; d.Err == nil && len(d.Data) > 0; n++ {
		r := storage.Record{Key: string(d.Bytes()), Created: d.Uint(), Revision: d.Uint(), Version: d.Uint(), Expires: d.Time()}
		value := append([]byte(nil), d.Bytes()...)
		if d.Err == nil {
			f(r, value)
		}
	}
	return n
}

// Salvage calls f with the records of each intact frame of a damaged snapshot. It changes data.
func Salvage(data []byte, f func(storage.Record, []byte)) {
	for position := int64(0); position < int64(len(data)); {
		payload, next, err := frame.At(data, position)
		if err != nil {
			position += frame.HeaderSize
			continue
		}
		position = next
		if d := (&frame.Decoder{Data: payload}); d.Byte() == kindRecords {
			decodeRecords(d, f)
		}
	}
}
