package compact

import (
	"encoding/binary"
	"hash/maphash"
	"math"
	"slices"
	"unsafe"

	"k8s.io/apimachinery/pkg/api/resource"
)

// A token is a place in the dictionary; or the length of a string that comes next
// in the value's own text; or, if the string came there before, where that was,
// which is followed by its length. A part that is not in the dictionary has the
// token of an empty string, and what it is made of follows.
const (
	tokenBits     = 2
	tokenMask     = 1<<tokenBits - 1
	tokenInline   = 0
	tokenInterned = 1
	tokenRepeat   = 2
)

// encoder takes a value apart: into data, and a mark for each string and for each
// part that may be shared. Only when it is whole it is seen what is shared.
type encoder struct {
	data   []byte
	marks  []mark
	keys   []string
	depth  int
	failed bool

	tokens, pressed, text []byte
	// offsets are the places in text of strings by their hashes.
	offsets map[uint64]int
	// quantities are what was said of quantities before.
	quantities map[resource.Quantity]quantity
}

// mark is a string, or a part of the value with the marks in it.
type mark struct {
	text string
	hash uint64
	// codec is that of a part, nil for a string.
	codec *subtreeCodec
	// The part's data stands from data to dataEnd, and the marks in it stand
	// before end.
	data, dataEnd, end int
}

func (e *encoder) reset() {
	clear(e.marks)
	clear(e.offsets)
	clear(e.keys[:cap(e.keys)])
	e.data, e.marks, e.keys, e.depth, e.failed = e.data[:0], e.marks[:0], e.keys[:0], 0, false
	if cap(e.data)+cap(e.text) > keptAtMost || cap(e.marks) > keptAtMost/64 {
		*e = encoder{}
	}
}

const (
	// What leads to itself, or to one thing on very many ways, is not packed: it has
	// no end, or none that is near.
	depthAtMost, dataAtMost, marksAtMost = 1000, 8 << 20, 1 << 20
	// keptAtMost is about how many bytes are kept for the next value.
	keptAtMost = 1 << 20
)

// enter goes one level deeper, into what is to be a part. It returns false if that is
// not to be done.
func (e *encoder) enter() bool {
	if e.depth == depthAtMost || len(e.data) > dataAtMost || len(e.marks) > marksAtMost {
		e.fail()
	}
	if e.failed {
		return false
	}
	e.depth++
	return true
}

func (e *encoder) fail() { e.failed = true }

func (e *encoder) byte(b byte) { e.data = append(e.data, b) }

func (e *encoder) bool(b bool) {
	if b {
		e.byte(1)
	} else {
		e.byte(0)
	}
}

func (e *encoder) uint(x uint64) { e.data = binary.AppendUvarint(e.data, x) }

// length writes the length of something that could be nil, for which it writes
// zero otherwise.
func (e *encoder) length(n int) { e.uint(uint64(n) + 1) }

func (e *encoder) int(x int64) { e.data = binary.AppendVarint(e.data, x) }

func (e *encoder) float(x float64) {
	e.data = binary.BigEndian.AppendUint64(e.data, math.Float64bits(x))
}

func (e *encoder) float32(x float32) {
	e.data = binary.BigEndian.AppendUint32(e.data, math.Float32bits(x))
}

func (e *encoder) string(s string) { e.marks = append(e.marks, mark{text: s}) }

// sorted calls a function with the keys of a map in order. The function may call
// sorted in turn.
func sorted[K ~string, V any](e *encoder, m map[K]V, do func(key string)) {
	from := len(e.keys)
	for key := range m {
		e.keys = append(e.keys, string(key))
	}
	to := len(e.keys)
	slices.Sort(e.keys[from:to])
	for i := from; i < to; i++ {
		do(e.keys[i])
	}
	e.keys = e.keys[:from]
}

// encode takes a header and a value apart. It returns false if the value cannot be
// packed. What a program's types hold is not ours to know, so a panic says that too.
func (e *encoder) encode(header []string, t Type, p unsafe.Pointer) (ok bool) {
	defer func() { ok = recover() == nil && !e.failed }()
	e.uint(uint64(len(header)))
	for _, s := range header {
		e.string(s)
	}
	t.codec.encode(e, p)
	return true
}

// begin begins a part and returns its mark, end ends it.
func (e *encoder) begin(p *subtreeCodec) int {
	e.marks = append(e.marks, mark{codec: p, data: len(e.data)})
	return len(e.marks) - 1
}

func (e *encoder) end(part int) {
	e.depth--
	e.marks[part].dataEnd, e.marks[part].end = len(e.data), len(e.marks)
}

// pack puts together what was taken apart, with what the dictionary has of it.
func (e *encoder) pack(d *dictionary) Value {
	e.tokens, e.pressed, e.text = e.tokens[:0], e.pressed[:0], e.text[:0]
	from := 0
	for i := 0; i < len(e.marks); {
		m := &e.marks[i]
		if m.codec == nil {
			e.writeString(d, m)
			i++
		} else if place, ok := d.part(e, i); ok {
			e.token(tokenInterned, uint64(place))
			e.pressed = append(e.pressed, e.data[from:m.data]...)
			from, i = m.dataEnd, m.end
		} else {
			e.token(tokenInline, 0)
			i++
		}
	}
	e.pressed = append(e.pressed, e.data[from:]...)
	return newValue(e.tokens, e.pressed, e.text)
}

func (e *encoder) token(kind, x uint64) {
	e.tokens = binary.AppendUvarint(e.tokens, x<<tokenBits|kind)
}

// writeString writes a string.
func (e *encoder) writeString(d *dictionary, m *mark) {
	n := len(m.text)
	if n == 0 {
		e.token(tokenInline, 0)
		return
	}
	hash := d.hash(m)
	// What comes twice in one value is not shared yet.
	if at, ok := e.offsets[hash]; ok && at+n <= len(e.text) && string(e.text[at:at+n]) == m.text {
		e.token(tokenRepeat, uint64(at))
		e.tokens = binary.AppendUvarint(e.tokens, uint64(n))
		return
	}
	if place, ok := d.text(m.text, hash); ok {
		e.token(tokenInterned, uint64(place))
		return
	}
	if e.offsets == nil {
		e.offsets = map[uint64]int{}
	}
	e.offsets[hash] = len(e.text)
	e.token(tokenInline, uint64(n))
	e.text = append(e.text, m.text...)
}

// selfContained returns a part as a value that shares nothing.
func (e *encoder) selfContained(part int) Value {
	m := &e.marks[part]
	e2 := encoder{}
	for _, inner := range e.marks[part:m.end] {
		e2.token(tokenInline, uint64(len(inner.text)))
		e2.text = append(e2.text, inner.text...)
	}
	return newValue(e2.tokens, e.data[m.data:m.dataEnd], e2.text)
}

// equals tells whether a part would be that value alone.
func (e *encoder) equals(part int, v Value) bool {
	m := &e.marks[part]
	at, data, text := v.sections()
	if v.code[data:text] != string(e.data[m.data:m.dataEnd]) {
		return false
	}
	for _, inner := range e.marks[part:m.end] {
		if at == data {
			return false
		}
		var token uint64
		token, at = uvarint(v.code, at)
		n := int(token >> tokenBits)
		if n != len(inner.text) || v.code[text:text+n] != inner.text {
			return false
		}
		text += n
	}
	return at == data
}

// sum returns a hash of a part and about how much there is to it.
func (d *dictionary) sum(e *encoder, part int) (hash uint64, weight int) {
	m := &e.marks[part]
	data := e.data[m.data:m.dataEnd]
	hash, weight = maphash.Bytes(d.seed, data), len(data)
	for i := part; i < m.end; i++ {
		inner := &e.marks[i]
		weight += len(inner.text)
		hash = (hash ^ d.hash(inner)) * 0x9e3779b97f4a7c15
		hash ^= hash >> 29
	}
	return hash, weight
}

// hash returns the hash of a mark's string.
func (d *dictionary) hash(m *mark) uint64 {
	if m.hash == 0 && m.text != "" {
		m.hash = maphash.String(d.seed, m.text)
	}
	return m.hash
}
