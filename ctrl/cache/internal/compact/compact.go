// Package compact keeps Go values of API types in a fraction of their memory,
// and makes values of them again in less time than a deep copy takes.
//
// A packed value is a few hundred bytes that the garbage collector need not look
// into: the fields that are set, one after the other, with numbers of variable
// length. What values have in common stands once in the packer's dictionary, and
// a packed value only says where: strings, such as images and names of owners,
// and whole parts, such as the containers of all pods that were made of one
// template. A part that many values share stands there as a Go value too, so
// unpacking copies it in a few moves. Only what pays for its place is shared, so
// values of which there are a few of a kind take no more than if each was its own.
// Unpacking makes a value that is nobody else's. It allocates no strings:
// they are immutable, and so are shared. So is the text of managed fields, which
// apimachinery replaces and never writes into.
//
// What comes back is equal to what went in, down to the difference between nil
// and empty and to the bits of what is not a number. What cannot be brought back so
// is not packed: functions, channels, interfaces other than those of unstructured
// content, unexported fields, maps by pointers, times in other zones than UTC and the
// local one, what is nested more than a thousand times. Only the monotonic part of
// times is lost, and which pointers lead to the same variable.
//
// # Concurrency
//
// A Packer is used by one goroutine at a time, and so is an Unpacker. A View may
// be used by many at once, also while the packer goes on.
package compact

import (
	"encoding/binary"
	"hash/maphash"
	"reflect"
	"sync"
	"unsafe"
)

// Value is a packed value. The zero Value holds nothing.
//
// It begins with the lengths of its first two sections. The tokens say what each
// string is, and each part that may stand in the dictionary. The data is
// everything else. The text is the strings that this value alone has. The tokens
// are apart from the data so that they can be gone through without knowing the
// type.
type Value struct{ code string }

// IsZero tells whether the value holds nothing.
func (v Value) IsZero() bool { return v.code == "" }

// Size returns how many bytes the value takes, without those of the dictionary.
func (v Value) Size() int { return len(v.code) }

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

// Type is a Go type whose values can be packed.
type Type struct{ codec codec }

// TypeOf returns a type.
func TypeOf(t reflect.Type) Type { return Type{nodeOf(t).codec} }

// Packer packs values.
type Packer struct {
	dictionary dictionary
	encoder    encoder
	view       *View
}

// NewPacker returns a packer with an empty dictionary.
func NewPacker() *Packer {
	return &Packer{dictionary: newDictionary(), view: &View{}}
}

// Pack packs the value of a type that a pointer points to, and before it a header
// of a few strings, which can be read without the rest. The first one says which
// object it is: what one object has in common with what it was before is not worth
// sharing. Pack returns false if the value cannot be packed. The dictionary holds
// what the value shares until Release.
func (p *Packer) Pack(header []string, t Type, ptr any) (Value, bool) {
	e := &p.encoder
	defer e.reset()
	if !e.encode(header, t, reflect.ValueOf(ptr).UnsafePointer()) {
		return Value{}, false
	}
	if len(header) > 0 {
		p.dictionary.owner = uint8(maphash.String(p.dictionary.seed, header[0]))
	}
	v := e.pack(&p.dictionary)
	p.dictionary.packed(v)
	return v, true
}

// Release says that a value is not wanted any more. Views from before the
// release can still unpack it.
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
			p.dictionary.release(uint32(token >> tokenBits))
		case tokenRepeat:
			_, at = uvarint(v.code, at)
		}
	}
	p.dictionary.released(v)
}

// Size returns how many bytes the dictionary takes.
func (p *Packer) Size() int { return p.dictionary.size }

// View returns what it takes to unpack every value that is not released yet. It
// is the same as before if nothing was added to the dictionary.
func (p *Packer) View() *View {
	if p.dictionary.changed {
		p.dictionary.changed = false
		p.view = &View{p.dictionary.entries}
	}
	return p.view
}

// View unpacks values.
type View struct{ entries []entry }

// Unpacker unpacks values, one after the other. It makes their parts in batches,
// with fewer allocations than if each was made for itself; parts of up to 16
// values stay in memory together then.
type Unpacker struct{ decoder decoder }

// unpackers are those that wait to be used again, with what is left of batches.
var unpackers = sync.Pool{New: func() any { return new(Unpacker) }}

// Unpacker returns an unpacker, which is to be closed after use.
func (w *View) Unpacker() *Unpacker {
	u := unpackers.Get().(*Unpacker)
	u.decoder.entries = w.entries
	return u
}

// Close ends the use of an unpacker.
func (u *Unpacker) Close() {
	u.decoder.entries, u.decoder.code = nil, ""
	unpackers.Put(u)
}

// Unpack makes a packed value again in a place for it, which is zero and of the
// type that was packed.
func (u *Unpacker) Unpack(v Value, t Type, into reflect.Value) {
	d := &u.decoder
	d.open(v)
	for range d.uint() {
		d.string()
	}
	t.codec.decode(d, into.Addr().UnsafePointer())
}

// Header returns the header of a value.
func (w *View) Header(v Value) Header {
	h := Header{decoder: decoder{entries: w.entries}}
	h.decoder.open(v)
	h.left = h.decoder.uint()
	return h
}

// Header is the strings of a header that were not looked at yet.
type Header struct {
	decoder decoder
	left    uint64
}

// Next returns the next string, if there is one.
func (h *Header) Next() (string, bool) {
	if h.left == 0 {
		return "", false
	}
	h.left--
	return h.decoder.string(), true
}
