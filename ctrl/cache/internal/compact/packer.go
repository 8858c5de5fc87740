package compact

import (
	"encoding/binary"
	"hash/maphash"
	"reflect"
	"unsafe"

	"flyball.dev/ctrl/cache/internal/compact/intern"
)

// Packer packs values.
type Packer struct {
	admission
	encoder encoder
	view    *View

	// The sections of the value that is being packed, and the offsets in its text of strings by
	// their hashes.
	tokens, data, text []byte
	offsets            map[uint64]int
}

// NewPacker returns a packer that shares nothing yet.
func NewPacker() *Packer {
	return &Packer{
		admission: admission{
			table:  intern.New[*subtree](),
			seed:   maphash.MakeSeed(),
			sketch: make(frequencySketch, countersAtLeast),
		},
		view:    &View{},
		offsets: map[uint64]int{},
	}
}

// Pack packs the value of a type that a pointer points to, and before it a header of a few strings,
// which can be read without the rest. The first one identifies the object: what one object has in
// common with what it was before is not worth interning. Pack returns false if the value cannot be
// packed. What the value shares stays interned until Release.
func (p *Packer) Pack(header []string, t Type, ptr any) (Value, bool) {
	defer p.reset()
	if !p.encode(header, t, reflect.ValueOf(ptr).UnsafePointer()) {
		return Value{}, false
	}
	if len(header) > 0 {
		p.owner = uint8(maphash.String(p.seed, header[0]))
	}
	v := p.write()
	p.packed(v)
	return v, true
}

// Release ends the use of a value. Views from before the release can still unpack it.
func (p *Packer) Release(v Value) {
	if v.IsZero() {
		return
	}
	at, end, _ := v.sections()
	for at < end {
		var token uint64
		token, at = uvarint(v.code, at)
		switch token & tokenMask {
		case tokenInterned:
			p.table.Release(uint32(token >> tokenBits))
		case tokenRepeat:
			_, at = uvarint(v.code, at)
		}
	}
	p.released(v)
}

// Size returns how many bytes take what the values share.
func (p *Packer) Size() int { return p.table.Size() }

// View returns what it takes to unpack every value that is not released yet. It is the same as
// before if nothing was interned since.
func (p *Packer) View() *View {
	if p.table.Changed() {
		p.view = &View{p.table.Entries()}
	}
	return p.view
}

func (p *Packer) reset() {
	p.encoder.reset()
	clear(p.offsets)
	if cap(p.data)+cap(p.text) > retainedAtMost {
		p.tokens, p.data, p.text, p.offsets = nil, nil, nil, map[uint64]int{}
	}
}

// encode takes a header and a value apart. It returns false if the value cannot be packed. Types
// are the program's, and so may be methods that codecs call, so a panic means that too.
//
// Unsafe: the pointer is to a variable of the type.
func (p *Packer) encode(header []string, t Type, ptr unsafe.Pointer) (ok bool) {
	e := &p.encoder
	defer func() { ok = recover() == nil && !e.failed }()
	e.uint(uint64(len(header)))
	for _, s := range header {
		e.string(s)
	}
	t.codec.encode(e, ptr)
	return true
}

// write puts together what was taken apart, with the IDs of what is interned of it.
func (p *Packer) write() Value {
	e := &p.encoder
	p.tokens, p.data, p.text = p.tokens[:0], p.data[:0], p.text[:0]
	from := 0
	for i := 0; i < len(e.marks); {
		m := &e.marks[i]
		if m.codec == nil {
			p.writeString(m)
			i++
		} else if id, ok := p.internSubtree(e, i); ok {
			p.tokens = appendToken(p.tokens, tokenInterned, uint64(id))
			p.data = append(p.data, e.data[from:m.data]...)
			from, i = m.dataEnd, m.end
		} else {
			p.tokens = appendToken(p.tokens, tokenInline, 0)
			i++
		}
	}
	p.data = append(p.data, e.data[from:]...)
	return newValue(p.tokens, p.data, p.text)
}

// writeString writes a string: its ID, or where it came before in this value, or its text.
func (p *Packer) writeString(m *mark) {
	n := len(m.text)
	if n == 0 {
		p.tokens = appendToken(p.tokens, tokenInline, 0)
		return
	}
	hash := p.hash(m)
	// What comes twice in one value is not interned for that.
	at, ok := p.offsets[hash]
	if ok && at+n <= len(p.text) && string(p.text[at:at+n]) == m.text {
		p.tokens = appendToken(p.tokens, tokenRepeat, uint64(at))
		p.tokens = binary.AppendUvarint(p.tokens, uint64(n))
		return
	}
	if id, ok := p.internString(m.text, hash); ok {
		p.tokens = appendToken(p.tokens, tokenInterned, uint64(id))
		return
	}
	p.offsets[hash] = len(p.text)
	p.tokens = appendToken(p.tokens, tokenInline, uint64(n))
	p.text = append(p.text, m.text...)
}
