// Package compact keeps Go values of API types in a fraction of their memory,
// and makes values of them again about as fast as a deep copy is made.
//
// A packed value is a few hundred bytes that the garbage collector need not look
// into: the fields that are set, one after the other, with numbers of variable
// length. The strings that values have in common — labels, images, names of
// owners, the text of managed fields — stand once in the packer's dictionary;
// a packed value only counts them out. Unpacking makes a value that is nobody
// else's. It allocates no strings: they are immutable, and so are shared.
//
// What comes back is equal to what went in, down to the difference between nil
// and empty. What cannot be brought back exactly is not packed: functions,
// interfaces other than those of unstructured content, unexported fields.
//
// # Concurrency
//
// A Packer is used by one goroutine at a time. A View may be used by many at
// once, also while the packer goes on.
package compact

import (
	"encoding/binary"
	"reflect"
)

// Value is a packed value. The zero Value holds nothing.
type Value struct {
	// text is what stands in this value's strings and in no other's.
	text string
	// code is the length of the strings' part, the strings, and everything
	// else. The strings are apart so that they can be gone through without
	// knowing the type.
	code string
}

// IsZero tells whether the value holds nothing.
func (v Value) IsZero() bool { return v.code == "" }

// Size returns how many bytes the value takes, without those of the dictionary.
func (v Value) Size() int { return len(v.text) + len(v.code) }

// Packer packs values.
type Packer struct {
	dictionary dictionary
	encoder    encoder
}

// NewPacker returns a packer with an empty dictionary.
func NewPacker() *Packer {
	p := &Packer{dictionary: newDictionary()}
	p.encoder.packer = p
	p.encoder.own = map[string]uint64{}
	return p
}

// Pack packs the value that a pointer points to, and before it a header of a few
// strings, which can be read without the rest. It returns false if the value
// cannot be packed. The dictionary holds the value's strings until Release.
func (p *Packer) Pack(header []string, ptr any) (Value, bool) {
	e := &p.encoder
	e.reset()
	e.uint(uint64(len(header)))
	for _, s := range header {
		e.string(s)
	}
	v := reflect.ValueOf(ptr).Elem()
	planOf(v.Type()).encode(e, v)
	if e.failed {
		p.release(string(e.strings))
		return Value{}, false
	}
	code := make([]byte, 0, binary.MaxVarintLen32+len(e.strings)+len(e.data))
	code = binary.AppendUvarint(code, uint64(len(e.strings)))
	code = append(code, e.strings...)
	code = append(code, e.data...)
	return Value{text: string(e.text), code: string(code)}, true
}

// Release says that a value is not wanted any more. Views from before the
// release can still unpack it.
func (p *Packer) Release(v Value) {
	if v.IsZero() {
		return
	}
	length, from := uvarint(v.code, 0)
	p.release(v.code[from : from+int(length)])
}

// release goes through the tokens of strings.
func (p *Packer) release(tokens string) {
	for at := 0; at < len(tokens); {
		var token uint64
		token, at = uvarint(tokens, at)
		switch token & tokenMask {
		case tokenShared:
			p.dictionary.release(uint32(token >> tokenBits))
		case tokenAgain:
			_, at = uvarint(tokens, at)
		}
	}
	p.dictionary.tidy()
}

// Size returns how many bytes the dictionary takes.
func (p *Packer) Size() int { return p.dictionary.size }

// View returns what it takes to unpack every value that is not released yet.
func (p *Packer) View() View { return View{p.dictionary.texts} }

// View unpacks values.
type View struct{ texts []string }

// Unpack makes a packed value again in a place for it, which is zero and of the
// type that was packed.
func (w View) Unpack(v Value, into reflect.Value) {
	h := w.Header(v)
	for _, ok := h.Next(); ok; _, ok = h.Next() {
	}
	planOf(into.Type()).decode(&h.decoder, into)
}

// Header returns the header of a value.
func (w View) Header(v Value) Header {
	h := Header{decoder: w.decoder(v)}
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
