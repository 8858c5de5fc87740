package compact

import (
	"encoding/binary"
	"math"
)

// decoder takes one packed value apart. What it reads was written by an encoder,
// so it does not look for mistakes.
type decoder struct {
	entries []entry
	arena   slabs
	cursor
}

// cursor is where a decoder stands in a value.
type cursor struct {
	// token is where the next token stands in code, data where the next of
	// everything else does, and text where the value's own text begins and goes
	// on.
	code               string
	token, data        int
	textBegin, textOwn int
}

// open turns to a value.
func (d *decoder) open(v Value) {
	d.code = v.code
	d.token, d.data, d.textBegin = v.sections()
	d.textOwn = d.textBegin
}

// uvarint reads a number at a position and returns what position follows it.
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

func (d *decoder) byte() byte {
	b := d.code[d.data]
	d.data++
	return b
}

func (d *decoder) bool() bool { return d.byte() == 1 }

func (d *decoder) uint() (x uint64) {
	x, d.data = uvarint(d.code, d.data)
	return x
}

// length reads a length. It returns false for nil.
func (d *decoder) length() (n int, ok bool) {
	n = int(d.uint()) - 1
	return n, n >= 0
}

func (d *decoder) int() int64 {
	x := d.uint()
	return int64(x>>1) ^ -int64(x&1)
}

func (d *decoder) float() float64 {
	var b [8]byte
	d.data += copy(b[:], d.code[d.data:])
	return math.Float64frombits(binary.BigEndian.Uint64(b[:]))
}

func (d *decoder) float32() float32 {
	var b [4]byte
	d.data += copy(b[:], d.code[d.data:])
	return math.Float32frombits(binary.BigEndian.Uint32(b[:]))
}

func (d *decoder) string() string {
	var token uint64
	token, d.token = uvarint(d.code, d.token)
	x := int(token >> tokenBits)
	switch token & tokenMask {
	case tokenInline:
		from := d.textOwn
		d.textOwn += x
		return d.code[from:d.textOwn]
	case tokenInterned:
		return d.entries[x].text
	default:
		var length uint64
		length, d.token = uvarint(d.code, d.token)
		return d.code[d.textBegin+x : d.textBegin+x+int(length)]
	}
}

// enter turns to a part that is a value of its own, leave turns back.
func (d *decoder) enter(part Value) (outer cursor) {
	outer = d.cursor
	d.open(part)
	d.subtree() // which says that it follows
	return outer
}

func (d *decoder) leave(outer cursor) { d.cursor = outer }

// subtree returns the next part if the dictionary has it; if not, nil, and what it
// is made of comes next.
func (d *decoder) subtree() *subtree {
	var token uint64
	token, d.token = uvarint(d.code, d.token)
	if token&tokenMask == tokenInterned {
		return d.entries[token>>tokenBits].subtree
	}
	return nil
}
