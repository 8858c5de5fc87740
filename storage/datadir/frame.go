package datadir

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
)

// A file is a sequence of frames. A frame is a header of headerSize bytes and a payload:
//
//	length of the payload    uint32, little-endian
//	checksum of the payload  uint32, CRC-32C of its bytes in the file
//	key                      uint32, zero if the payload is plain
//	checksum of the header   uint32, CRC-32C of the 12 bytes before
//
// Frames begin at multiples of headerSize, so that a header lies within one sector of the disk. A disk
// writes a sector as a whole or not at all. So when the machine stops during the write of a frame, the
// sectors that were not written are still zero, as they were before; see tornAt. To tell such a frame from a damaged one,
// no valid frame has a sector of zeros: the payload of one that would have is XORed with the pseudo-random
// bytes of a key.
const (
	headerSize = 16
	sectorSize = 512
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

var (
	errEnd    = errors.New("no frame")       // zeros follow to the end of the file
	errTorn   = errors.New("torn frame")     // its write was cut short
	errDamage = errors.New("wrong checksum") // it was written as a whole, and is different now
)

// align returns the first position at or after n at which a frame may begin.
func align(n int64) int64 { return (n + headerSize - 1) &^ (headerSize - 1) }

// appendFrame appends a frame to buf, which begins at a multiple of headerSize. The write function
// appends the payload.
func appendFrame(buf []byte, position int64, write func([]byte) []byte) []byte {
	start := len(buf)
	buf = append(buf, make([]byte, headerSize)...)
	buf = write(buf)
	header, payload := buf[start:start+headerSize], buf[start+headerSize:]
	key := uint32(0)
	for hasZeroSector(payload, position+headerSize) {
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
	if first := int(-position & (sectorSize - 1)); first < len(data) {
		data = data[first:]
	} else {
		return false
	}
	for len(data) > 0 {
		n := min(sectorSize, len(data))
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

// frameAt returns the payload of the frame at a position of data, which it may change, and the position
// after the frame. The error is errEnd, errTorn or errDamage.
func frameAt(data []byte, position int64) (payload []byte, next int64, err error) {
	rest := data[min(position, int64(len(data))):]
	length, err := parseHeader(rest)
	if err != nil {
		return nil, 0, err
	}
	if uint64(length) > uint64(len(rest)-headerSize) {
		return nil, 0, fmt.Errorf("%w: it is longer than the file", errDamage)
	}
	payload = rest[headerSize : headerSize+int(length)]
	if crc32.Checksum(payload, castagnoli) != binary.LittleEndian.Uint32(rest[4:]) {
		if hasZeroSector(payload, position+headerSize) {
			return nil, 0, errTorn
		}
		return nil, 0, errDamage
	}
	whiten(payload, binary.LittleEndian.Uint32(rest[8:]))
	return payload, align(position + headerSize + int64(length)), nil
}

// parseHeader returns the length of the payload of the frame that data begins with. A header of zeros is
// the end of the frames, or was not written although other sectors of its frame were.
func parseHeader(data []byte) (length uint32, err error) {
	if len(data) < headerSize {
		if isZero(data) {
			return 0, errEnd
		}
		return 0, errDamage
	}
	header := data[:headerSize]
	switch {
	case isZero(header) && isZero(data):
		return 0, errEnd
	case isZero(header):
		return 0, errTorn
	case crc32.Checksum(header[:12], castagnoli) != binary.LittleEndian.Uint32(header[12:]):
		return 0, errDamage
	}
	return binary.LittleEndian.Uint32(header), nil
}

// hasFrameAfter reports whether a valid frame begins after a position of data.
func hasFrameAfter(data []byte, position int64) bool {
	for position = align(position + 1); position+headerSize <= int64(len(data)); position += headerSize {
		header := data[position : position+headerSize]
		if isZero(header) || crc32.Checksum(header[:12], castagnoli) != binary.LittleEndian.Uint32(header[12:]) {
			continue
		}
		length := binary.LittleEndian.Uint32(header)
		rest := data[position+headerSize:]
		if uint64(length) <= uint64(len(rest)) &&
			crc32.Checksum(rest[:length], castagnoli) == binary.LittleEndian.Uint32(header[4:]) {
			return true
		}
	}
	return false
}
