package compact

import (
	"hash/maphash"
	"reflect"
	"unsafe"

	"flyball.dev/ctrl/cache/internal/compact/intern"
)

// Packer packs values.
type Packer struct {
	admission
	encoder encoder
	writer  writer
	view    *View
}

// NewPacker returns a packer with an empty intern table.
func NewPacker() *Packer {
	return &Packer{
		admission: admission{
			table:  intern.New[*subtree](),
			seed:   maphash.MakeSeed(),
			sketch: make(frequencySketch, minCounters),
		},
		writer: writer{places: map[uint64]int{}},
		view:   &View{},
	}
}

// Pack packs the value of a type that a pointer points to, and before it a header of a few strings,
// which can be read without the rest, and which readers may keep: what they read of the value and is
// equal to a string of the header, or to one that is given, does not keep the value in memory. The
// given strings are not packed; Unpack needs them again. The first string of the header identifies
// the object: what one object has in common with what it was before is not worth interning. Pack
// returns false if the value cannot be packed. What the value shares stays interned until Release.
func (p *Packer) Pack(given, header []string, t Type, ptr any) (Value, bool) {
	defer p.reset()
	if !p.encode(header, t, reflect.ValueOf(ptr).UnsafePointer()) {
		return Value{}, false
	}
	if len(header) > 0 {
		p.owner = uint8(maphash.String(p.seed, header[0]))
	}
	e, w := &p.encoder, &p.writer
	w.give(&p.admission, given)
	w.writeHeader(&p.admission, e.marks[:len(header)])
	v := w.write(&p.admission, e, len(header), len(e.marks), 0, len(e.data))
	p.added(v)
	return v, true
}

// Release ends the use of a value. Views from before the release can still unpack it.
func (p *Packer) Release(v Value) {
	if v.IsZero() {
		return
	}
	p.releaseAll(v)
	p.removed(v)
}

// Size returns how many bytes the intern table takes.
func (p *Packer) Size() int { return p.table.Size() }

// View returns a view that can unpack every value that is not released yet. It is the same as
// before if nothing was interned since.
func (p *Packer) View() *View {
	if p.table.Changed() {
		p.view = &View{p.table.Entries()}
	}
	return p.view
}

func (p *Packer) reset() {
	p.encoder.reset()
	p.writer.reset()
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
