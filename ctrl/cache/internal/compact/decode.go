package compact

import "encoding/binary"

// decoder takes one packed value apart. What it reads was written by an encoder,
// so it does not look for mistakes.
type decoder struct {
	texts []string
	text  string
	// token is where the next token of a string stands in code, tail where the
	// next of everything else does, and own where the value's own text goes on.
	code             string
	token, tail, own int
}

func (w View) decoder(v Value) decoder {
	length, from := uvarint(v.code, 0)
	return decoder{texts: w.texts, text: v.text, code: v.code, token: from, tail: from + int(length)}
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
	b := d.code[d.tail]
	d.tail++
	return b
}

func (d *decoder) uint() (x uint64) {
	x, d.tail = uvarint(d.code, d.tail)
	return x
}

func (d *decoder) int() int64 {
	x := d.uint()
	return int64(x>>1) ^ -int64(x&1)
}

func (d *decoder) fixed() uint64 {
	var b [8]byte
	d.tail += copy(b[:], d.code[d.tail:])
	return binary.BigEndian.Uint64(b[:])
}

func (d *decoder) string() string {
	var token uint64
	token, d.token = uvarint(d.code, d.token)
	switch x := int(token >> tokenBits); token & tokenMask {
	case tokenShared:
		return d.texts[x]
	case tokenAgain:
		var length uint64
		length, d.token = uvarint(d.code, d.token)
		return d.text[x : x+int(length)]
	default:
		from := d.own
		d.own += x
		return d.text[from:d.own]
	}
}
