package compact

import (
	"encoding/binary"
	"unsafe"
)

// Value is a packed value. The zero Value holds nothing. FORMAT.md describes the bytes.
type Value struct{ code string }

// IsZero reports whether the value holds nothing.
func (v Value) IsZero() bool { return v.code == "" }

// Size returns how many bytes the value takes, without what it shares.
func (v Value) Size() int { return len(v.code) }

// newValue puts the sections of a value together.
//
// Unsafe: nobody writes to code any more once it is a string.
func newValue(tokens, data, text []byte) Value {
	code := make([]byte, 0, 2*binary.MaxVarintLen32+len(tokens)+len(data)+len(text))
	code = binary.AppendUvarint(code, uint64(len(tokens)))
	code = binary.AppendUvarint(code, uint64(len(data)))
	code = append(code, tokens...)
	code = append(code, data...)
	code = append(code, text...)
	return Value{unsafe.String(unsafe.SliceData(code), len(code))}
}

// sections returns where the tokens, the data and the text begin.
func (v Value) sections() (tokens, data, text int) {
	n, at := uvarint(v.code, 0)
	m, at := uvarint(v.code, at)
	return at, at + int(n), at + int(n) + int(m)
}

// A token is one of three: the ID of an entry of the intern table; or the length of a string that
// comes next in the value's own text; or, if the string came there before, its offset there, and a
// number that is its length follows. A subtree that is not interned has the token of an empty
// string, and its content follows.
const (
	tokenBits     = 2
	tokenMask     = 1<<tokenBits - 1
	tokenInline   = 0
	tokenInterned = 1
	tokenRepeat   = 2
)

func appendToken(tokens []byte, kind, x uint64) []byte {
	return binary.AppendUvarint(tokens, x<<tokenBits|kind)
}

// uvarint reads a number at an offset and returns the offset of what follows it.
func uvarint(s string, at int) (uint64, int) {
	if b := s[at]; b < 0x80 {
		return uint64(b), at + 1
	}
	return longUvarint(s, at)
}

func longUvarint(s string, at int) (x uint64, next int) {
	for shift := 0; ; shift += 7 {
		b := s[at]
		at++
		x |= uint64(b&0x7f) << shift
		if b < 0x80 {
			return x, at
		}
	}
}
