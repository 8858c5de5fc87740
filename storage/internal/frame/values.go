package frame

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"
)

// Format is the version of the format of the files, and of what their frames have.
const Format = 1

// ErrFormat means that a newer version has written a file.
var ErrFormat = errors.New("this version does not know the format")

// Numbers in a payload are varints, with a sign if they may be negative; a string is its length and its bytes; a time is nanoseconds since 1970, or zero for
// none.

// AppendNumbers appends a byte that says what a payload is, and numbers.
func AppendNumbers(buf []byte, kind byte, numbers ...uint64) []byte {
	buf = append(buf, kind)
	for _, n := range numbers {
		buf = binary.AppendUvarint(buf, n)
	}
	return buf
}

// AppendString appends a length and bytes.
func AppendString[T string | []byte](buf []byte, s T) []byte {
	buf = binary.AppendUvarint(buf, uint64(len(s)))
	return append(buf, s...)
}

// AppendTime appends a time.
func AppendTime(buf []byte, t time.Time) []byte {
	if t.IsZero() {
		return append(buf, 0)
	}
	return binary.AppendVarint(buf, t.UnixNano())
}

// clockTolerance is how far the wall clock and the monotonic clock may differ without the wall clock having been set.
const clockTolerance = time.Second

// ClockSet returns by how much the wall clock was set forward between two readings of the clock, zero if it was not set.
func ClockSet(before, after time.Time) time.Duration {
	if d := after.Round(0).Sub(before.Round(0)) - after.Sub(before); d.Abs() > clockTolerance {
		return d
	}
	return 0
}

// AppendExpiry appends the time at which a record expires, as the wall clock shows it if nobody sets it after clock, a reading of
// the clock.
func AppendExpiry(buf []byte, t, clock time.Time) []byte {
	if !t.IsZero() && ClockSet(clock, t) != 0 {
		t = clock.Add(t.Sub(clock))
	}
	return AppendTime(buf, t)
}

// ErrPayload means that a frame is intact, and its content is not what it should be.
var ErrPayload = errors.New("the content of a frame is invalid")

// Decoder reads a payload. After an error, all results are zero.
type Decoder struct {
	Data []byte // the rest
	Err  error
}

// Fail makes Err ErrPayload.
func (d *Decoder) Fail() {
	d.Data, d.Err = nil, ErrPayload
}

// Byte reads a byte.
func (d *Decoder) Byte() byte {
	if len(d.Data) == 0 {
		d.Fail()
		return 0
	}
	b := d.Data[0]
	d.Data = d.Data[1:]
	return b
}

// Uint reads a number.
func (d *Decoder) Uint() uint64 {
	n, size := binary.Uvarint(d.Data)
	if size <= 0 {
		d.Fail()
		return 0
	}
	d.Data = d.Data[size:]
	return n
}

// Int reads a number with a sign.
func (d *Decoder) Int() int64 {
	n, size := binary.Varint(d.Data)
	if size <= 0 {
		d.Fail()
		return 0
	}
	d.Data = d.Data[size:]
	return n
}

// Bytes returns a part of the payload.
func (d *Decoder) Bytes() []byte {
	n := d.Uint()
	if n > uint64(len(d.Data)) {
		d.Fail()
		return nil
	}
	b := d.Data[:n:n]
	d.Data = d.Data[n:]
	return b
}

// Time reads a time.
func (d *Decoder) Time() time.Time {
	n := d.Int()
	if n == 0 {
		return time.Time{}
	}
	return time.Unix(0, n)
}

// Head reads the first frame of a file: a kind, the format, and two numbers.
func (d *Decoder) Head(kind byte) (revision, number uint64, err error) {
	if d.Byte() != kind {
		return 0, 0, ErrPayload
	}
	if f := d.Uint(); d.Err == nil && f != Format {
		return 0, 0, fmt.Errorf("%w: format %d", ErrFormat, f)
	}
	revision, number = d.Uint(), d.Uint()
	if len(d.Data) > 0 {
		d.Fail()
	}
	return revision, number, d.Err
}
