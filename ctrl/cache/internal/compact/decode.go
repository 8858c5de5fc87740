package compact

import (
	"encoding/binary"
	"math"
	"sync/atomic"
	"unsafe"

	"flyball.dev/ctrl/cache/internal/compact/arena"
	"flyball.dev/ctrl/cache/internal/compact/intern"
)

// decoder reads packed values. What it reads was written by a packer, so it does not look for
// mistakes.
type decoder struct {
	entries []entry
	arena   arena.Arena
	// headers are the given strings and the strings of the header.
	headers []string
	cursor
}

// entry is an entry of the intern table: a string or a subtree.
type entry = intern.Entry[*subtree]

// subtree is an interned subtree: packed by itself, which may refer to other entries, and, if that
// is worth it, as a Go value to copy.
type subtree struct {
	codec  any
	packed Value
	// threshold is the number of bytes that uses must have saved before a prototype is considered.
	// Only the packer accesses it.
	threshold uint32
	prototype atomic.Pointer[prototype]
}

// prototype is a Go value that copies are made of: a variable, and what makes shallow copies of
// the variable independent of it. It is never changed.
type prototype struct {
	variable unsafe.Pointer
	unaliaser
}

// unaliaser gives a variable that is a shallow copy of another one what that one refers to, as
// copies of its own.
//
// Unsafe: the pointer is to a variable of the type that the unaliaser was made for.
type unaliaser interface {
	unalias(*decoder, unsafe.Pointer)
}

// cursor is a position in a value: the offsets of the next token and of the next data, the text or
// the piece of it that the next inline string is in, and the offset of that string there.
type cursor struct {
	code        string
	token, data int
	text        string
	next        int
	// apart belongs to the value, and piece is the number of the piece.
	apart *apart
	piece int
}

// open begins to read a value, after its header.
func (d *decoder) open(v Value) {
	tokens, data, text := v.sections()
	d.cursor = cursor{code: v.code, token: tokens, data: data, text: v.code[text:], apart: v.apart}
	if v.apart.large() {
		d.text = v.apart.pieces[0]
	}
}

// header reads the header of a value that was just opened. It adds the strings to the given ones.
func (d *decoder) header(v Value) {
	text := d.text
	d.text = v.head
	for range d.uint() {
		d.headers = append(d.headers, d.string())
	}
	d.text, d.next = text, 0
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
		return d.inline(x)
	case tokenInterned:
		return d.entries[x].Text
	case tokenHeader:
		return d.headers[x]
	default:
		var length uint64
		length, d.token = uvarint(d.code, d.token)
		if d.apart.large() {
			piece := d.apart.pieces[x/maxPiece]
			return piece[x%maxPiece:][:length]
		}
		return d.text[x:][:length]
	}
}

// inline reads a string of the text.
func (d *decoder) inline(length int) string {
	from := d.next
	if from+length > len(d.text) {
		d.piece++
		d.text, from = d.apart.pieces[d.piece], 0
	}
	d.next = from + length
	return d.text[from:d.next]
}

// enter begins to read a subtree that was packed by itself, leave continues after it.
func (d *decoder) enter(packed Value) (outer cursor) {
	outer = d.cursor
	d.open(packed)
	d.subtree() // its own token, which says that its content follows
	return outer
}

func (d *decoder) leave(outer cursor) { d.cursor = outer }

// prototype returns the prototype of a subtree, if there is one to copy. What is to be a prototype
// itself is unpacked in full, so that it refers to variables of its own that are all counted.
func (d *decoder) prototype(t *subtree) *prototype {
	if d.arena.Dedicated {
		return nil
	}
	return t.prototype.Load()
}

// skip reads data, if data comes next, before the end.
func (d *decoder) skip(data []byte, end int) bool {
	if d.data+len(data) > end || d.code[d.data:d.data+len(data)] != string(data) {
		return false
	}
	d.data += len(data)
	return true
}

// subtree returns the next subtree if it is interned or kept; if not, nil, and its content follows.
func (d *decoder) subtree() *subtree {
	var token uint64
	token, d.token = uvarint(d.code, d.token)
	switch token & tokenMask {
	case tokenInterned:
		return d.entries[token>>tokenBits].Value
	case tokenKept:
		return d.apart.kept[token>>tokenBits]
	default:
		return nil
	}
}
