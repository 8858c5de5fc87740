// Package frame has the frames of the files of a storage, and the encoding of the values in them.
//
// A frame is a header of HeaderSize bytes and a payload:
//
//	length of the payload    uint32, little-endian
//	checksum of the payload  uint32, CRC-32C of its bytes in the file
//	key                      uint32, zero if the payload is plain
//	checksum of the header   uint32, CRC-32C of the 12 bytes before
//
// Frames begin at multiples of HeaderSize, so that a header lies within one sector of the disk. A disk
// writes a sector as a whole or not at all. So when the machine stops during the write of a frame, the
// sectors that were not written are still zero, as they were before; see At. To tell such a frame from a damaged one,
// no valid frame has a sector of zeros: the payload of one that would have is XORed with the pseudo-random
// bytes of a key.
package frame

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
)

const (
	HeaderSize = 16
	// SectorSize is the smallest size of the sectors of a disk.
	SectorSize = 512
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// The errors of At.
var (
	ErrEnd    = errors.New("no frame")       // zeros follow to the end of the file
	ErrTorn   = errors.New("torn frame")     // its write was cut short
	ErrDamage = errors.New("wrong checksum") // it was written as a whole, and is different now
)

// Align returns the first position at or after n at which a frame may begin.
func Align(n int64) int64 { return (n + HeaderSize - 1) &^ (HeaderSize - 1) }

// Append appends a frame to buf, which begins at a multiple of HeaderSize. The write function
// appends the payload.
func Append(buf []byte, position int64, write func([]byte) []byte) []byte {
	start := len(buf)
	buf = append(buf, make([]byte, HeaderSize)...)
	buf = write(buf)
	header, payload := buf[start:start+HeaderSize], buf[start+HeaderSize:]
	key := uint32(0)
	for hasZeroSector(payload, position+HeaderSize) {
		whiten(payload, key)
		key = rand.Uint32()
		whiten(payload, key)
	}
	binary.LittleEndian.PutUint32(header[0:], uint32(len(payload)))
	binary.LittleEndian.PutUint32(header[4:], crc32.Checksum(payload, castagnoli))
	binary.LittleEndian.PutUint32(header[8:], key)
	binary.LittleEndian.PutUint32(header[12:], crc32.Checksum(header[:12], castagnoli))
	return buf
}

// hasZeroSector reports whether a sector that is written with data at a position of the file, and does not
// contain the header before the data, gets nothing but zeros.
func hasZeroSector(data []byte, position int64) bool {
	if first := int(-position & (SectorSize - 1)); first < len(data) {
		data = data[first:]
	} else {
		return false
	}
	for len(data) > 0 {
		n := min(SectorSize, len(data))
		if isZero(data[:n]) {
			return true
		}
		data = data[n:]
	}
	return false
}

func isZero(data []byte) bool {
	for len(data) >= 8 {
		if binary.LittleEndian.Uint64(data) != 0 {
			return false
		}
		data = data[8:]
	}
	for _, b := range data {
		if b != 0 {
			return false
		}
	}
	return true
}

// whiten XORs data with the pseudo-random bytes of a key. Key zero changes nothing.
func whiten(data []byte, key uint32) {
	if key == 0 {
		return
	}
	state := uint64(key)
	for len(data) > 0 { // splitmix64
		state += 0x9e3779b97f4a7c15
		z := state
		z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
		z = (z ^ z>>27) * 0x94d049bb133111eb
		z ^= z >> 31
		n := min(8, len(data))
		for i := range n {
			data[i] ^= byte(z >> (8 * i))
		}
		data = data[n:]
	}
}

// At returns the payload of the frame at a position of data, which it may change, and the position
// after the frame. The error is ErrEnd, ErrTorn or ErrDamage.
func At(data []byte, position int64) (payload []byte, next int64, err error) {
	rest := data[min(position, int64(len(data))):]
	length, err := parseHeader(rest)
	if err != nil {
		return nil, 0, err
	}
	if uint64(length) > uint64(len(rest)-HeaderSize) {
		return nil, 0, fmt.Errorf("%w: it is longer than the file", ErrDamage)
	}
	payload = rest[HeaderSize : HeaderSize+int(length)]
	if crc32.Checksum(payload, castagnoli) != binary.LittleEndian.Uint32(rest[4:]) {
		if hasZeroSector(payload, position+HeaderSize) {
			return nil, 0, ErrTorn
		}
		return nil, 0, ErrDamage
	}
	whiten(payload, binary.LittleEndian.Uint32(rest[8:]))
	return payload, Align(position + HeaderSize + int64(length)), nil
}

// parseHeader returns the length of the payload of the frame that data begins with. A header of zeros is
// the end of the frames, or was not written although other sectors of its frame were.
func parseHeader(data []byte) (length uint32, err error) {
	if len(data) < HeaderSize {
		if isZero(data) {
			return 0, ErrEnd
		}
		return 0, ErrDamage
	}
	header := data[:HeaderSize]
	switch {
	case isZero(header) && isZero(data):
		return 0, ErrEnd
	case isZero(header):
		return 0, ErrTorn
	case crc32.Checksum(header[:12], castagnoli) != binary.LittleEndian.Uint32(header[12:]):
		return 0, ErrDamage
	}
	return binary.LittleEndian.Uint32(header), nil
}

// Follows reports whether a valid frame begins after a position of data.
func Follows(data []byte, position int64) bool {
	for position = Align(position + 1); position+HeaderSize <= int64(len(data)); position += HeaderSize {
		header := data[position : position+HeaderSize]
		if isZero(header) || crc32.Checksum(header[:12], castagnoli) != binary.LittleEndian.Uint32(header[12:]) {
			continue
		}
		length := binary.LittleEndian.Uint32(header)
		rest := data[position+HeaderSize:]
		if uint64(length) <= uint64(len(rest)) &&
			crc32.Checksum(rest[:length], castagnoli) == binary.LittleEndian.Uint32(header[4:]) {
			return true
		}
	}
	return false
}

// Reader reads the frames of a file one after the other.
type Reader struct {
	r        *bufio.Reader
	position int64
	buf      bytes.Buffer
}

// NewReader returns a reader of the frames that r begins with.
func NewReader(r io.Reader) *Reader { return &Reader{r: bufio.NewReaderSize(r, 64<<10)} }

// Position returns the position of the next frame.
func (r *Reader) Position() int64 { return r.position }

// Next returns the payload of the next frame, which is valid until the next call. At the end of the input it returns
// io.EOF. Memory grows with the bytes that arrive, whatever length the header has.
func (r *Reader) Next() ([]byte, error) {
	r.buf.Reset()
	switch _, err := io.CopyN(&r.buf, r.r, HeaderSize); {
	case err == io.EOF && r.buf.Len() == 0:
		return nil, io.EOF
	case err != nil:
		return nil, cutOff(err)
	}
	length, err := parseHeader(r.buf.Bytes())
	if err != nil {
		return nil, ErrDamage // a whole file has no header of zeros
	}
	if _, err := io.CopyN(&r.buf, r.r, Align(int64(length))); err != nil {
		return nil, cutOff(err)
	}
	payload, next, err := At(r.buf.Bytes(), 0)
	if err != nil {
		return nil, ErrDamage
	}
	if !isZero(r.buf.Bytes()[next-(Align(int64(length))-int64(length)):]) {
		return nil, ErrDamage
	}
	r.position += next
	return payload, nil
}

func cutOff(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}
