// Package dictionary compresses many small, similar values, each separately. A dictionary, made from samples, holds the
// common parts, and a compressed value refers to it.
//
// A compressed value begins with the length of the value. Then follow, in turn, the length of a literal, the literal,
// the length of a match and its position. Positions count from the start of the dictionary, as if the value followed
// the dictionary. All numbers are varints. The encoding ends with a literal or with a match.
package dictionary

import (
	"encoding/binary"
	"slices"
)

const (
	// maxSize is the largest size of a dictionary, so that a position in it plus one is 16 bits.
	maxSize = 48 << 10
	// minMatch is the length of the shortest match: a reference to a match takes up to five bytes.
	minMatch = 7
	// tableBits and recentBits are the sizes of the encoder's tables.
	tableBits, recentBits = 14, 11
	// minSample is the length of the shortest literal of a sample that Train adds to a dictionary. Train adds a whole sample if its
	// matches have fewer than wholeMatch bytes on average, and there is room for it in wholeSize bytes.
	minSample, wholeMatch, wholeSize = 8, 32, maxSize / 2
	// skipShift makes the encoder skip faster, the longer it has found no match.
	skipShift = 6
)

// Dictionary decompresses values. It is immutable.
type Dictionary struct{ data []byte }

// Decode returns the value that an encoder of this dictionary has compressed. The caller owns the result. It may be in the
// space of buf.
func (d *Dictionary) Decode(packed, buf []byte) []byte {
	size, packed := uvarint(packed)
	value := slices.Grow(buf[:0], size)
	for {
		n, rest := uvarint(packed)
		value, packed = append(value, rest[:n]...), rest[n:]
		if len(packed) == 0 {
			return value
		}
		var length, at int
		length, packed = uvarint(packed)
		at, packed = uvarint(packed)
		if at < len(d.data) {
			value = append(value, d.data[at:at+length]...)
		} else {
			value = repeat(value, at-len(d.data), length)
		}
		if len(packed) == 0 {
			return value
		}
	}
}

// repeat appends length bytes of value, starting at from, to value. The bytes are copied at once if they do not overlap
// the bytes that are appended; otherwise the appended bytes serve as their own source.
func repeat(value []byte, from, length int) []byte {
	if from+length <= len(value) {
		return append(value, value[from:from+length]...)
	}
	for i := range length {
		value = append(value, value[from+i])
	}
	return value
}

// uvarint reads a varint.
func uvarint(b []byte) (int, []byte) {
	x, n := binary.Uvarint(b)
	return int(x), b[n:]
}

// Encoder compresses values with a dictionary. Only one goroutine may use it at a time.
type Encoder struct {
	dictionary *Dictionary
	// table and recent map a hash to the last position with that hash, plus one: table in the dictionary, recent in the
	// value being compressed.
	table  [1 << tableBits]uint16
	recent [1 << recentBits]uint32
	packed []byte
}

// Train returns an encoder with a dictionary made from the samples. The dictionary has at most maxSize bytes. It has whole samples of
// each sort, with what they repeat, so that values of the sort consist of few, long matches. Of other samples, it has the parts that
// are new.
func Train(samples [][]byte) *Encoder {
	e := &Encoder{dictionary: &Dictionary{}}
	for _, sample := range samples {
		var added []byte
		matches, matched := 0, 0
		e.scan(sample, func(literal []byte, length, _ int) {
			if len(literal) >= minSample {
				added = append(added, literal...)
			}
			if length > 0 {
				matches, matched = matches+1, matched+length
			}
		})
		if matched < wholeMatch*matches && len(e.dictionary.data)+len(sample) <= wholeSize {
			added = sample
		}
		e.add(added)
	}
	return e
}

// add appends data to the dictionary, as far as there is room.
func (e *Encoder) add(data []byte) {
	d := e.dictionary
	from := max(0, len(d.data)-minMatch)
	d.data = append(d.data, data[:min(len(data), maxSize-len(d.data))]...)
	for i := from; i+8 <= len(d.data); i++ {
		if slot := &e.table[hash(d.data[i:])>>(64-tableBits)]; *slot == 0 {
			*slot = uint16(i + 1)
		}
	}
}

// Dictionary returns the dictionary that decompresses the values of the encoder.
func (e *Encoder) Dictionary() *Dictionary { return e.dictionary }

// Encode compresses a value. It returns nil if compression saves less than an eighth of the value. The caller owns the
// result.
func (e *Encoder) Encode(value []byte) []byte {
	e.packed = binary.AppendUvarint(e.packed[:0], uint64(len(value)))
	e.scan(value, func(literal []byte, length, at int) {
		e.packed = binary.AppendUvarint(e.packed, uint64(len(literal)))
		e.packed = append(e.packed, literal...)
		if length > 0 {
			e.packed = binary.AppendUvarint(e.packed, uint64(length))
			e.packed = binary.AppendUvarint(e.packed, uint64(at))
		}
	})
	if len(e.packed) > len(value)-len(value)/8 {
		return nil
	}
	return slices.Clone(e.packed)
}

// scan calls emit with each literal of a value and the match that follows. After the last literal the length of the
// match is zero.
func (e *Encoder) scan(value []byte, emit func(literal []byte, length, at int)) {
	clear(e.recent[:])
	base := e.dictionary.data
	start := 0 // of the literal
	for i := 0; i+8 <= len(value); {
		h := hash(value[i:])
		recent := &e.recent[h>>(64-recentBits)]
		length, at := 0, 0
		if slot := e.table[h>>(64-tableBits)]; slot > 0 {
			at = int(slot - 1)
			length = common(base[at:], value[i:])
		}
		if *recent > 0 {
			if n := common(value[*recent-1:], value[i:]); n > length {
				length, at = n, len(base)+int(*recent-1)
			}
		}
		*recent = uint32(i + 1)
		if length < minMatch {
			i += 1 + (i-start)>>skipShift
			continue
		}
		for i > start && at > 0 && at < len(base) && base[at-1] == value[i-1] {
			i, at, length = i-1, at-1, length+1
		}
		emit(value[start:i], length, at)
		i += length
		start = i
	}
	if start < len(value) {
		emit(value[start:], 0, 0)
	}
}

// hash returns a hash of the first six bytes. Its high bits are the best ones.
func hash(b []byte) uint64 {
	return binary.LittleEndian.Uint64(b) << 16 * 0x9e3779b97f4a7c15
}

// common returns the length of the common prefix.
func common(a, b []byte) int {
	n, limit := 0, min(len(a), len(b))
	for n+8 <= limit && binary.LittleEndian.Uint64(a[n:]) == binary.LittleEndian.Uint64(b[n:]) {
		n += 8
	}
	for n < limit && a[n] == b[n] {
		n++
	}
	return n
}
