package compact

import (
	"reflect"
	"sync"
)

// View unpacks values.
type View struct{ entries []entry }

// Unpacker unpacks values, one after the other. It allocates their variables in slabs, with fewer
// allocations than one a variable; variables of up to 16 values stay in memory together then.
type Unpacker struct{ decoder decoder }

// unpackers is the pool of unpackers that are not in use, with their slabs.
var unpackers = sync.Pool{New: func() any { return new(Unpacker) }}

// Unpacker returns an unpacker, which is to be closed after use.
func (w *View) Unpacker() *Unpacker {
	u := unpackers.Get().(*Unpacker)
	u.decoder.entries = w.entries
	return u
}

// Close ends the use of an unpacker.
func (u *Unpacker) Close() {
	d := &u.decoder
	d.entries, d.cursor = nil, cursor{}
	clear(d.headers)
	d.headers = d.headers[:0]
	unpackers.Put(u)
}

// Unpack unpacks a value into a variable, which is zero and of the type that was packed. The given
// strings are equal to the ones that Pack was given.
//
// Unsafe: into is of the type t, which the value was packed as.
func (u *Unpacker) Unpack(v Value, given []string, t Type, into reflect.Value) {
	d := &u.decoder
	d.headers = append(d.headers[:0], given...)
	d.open(v)
	d.header(v)
	t.codec.decode(d, into.Addr().UnsafePointer())
}

// Header returns the header of a value.
func (w *View) Header(v Value) Header {
	h := Header{decoder: decoder{entries: w.entries}}
	h.decoder.open(v)
	h.decoder.text = v.head
	h.left = h.decoder.uint()
	return h
}

// Header is the strings of a header that were not read yet.
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
